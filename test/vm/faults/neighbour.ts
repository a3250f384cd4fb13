import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { GuestNode } from '../node/guest-node.ts';
import { medianLifeMs } from '../node/life.ts';

const lives = 5;
/** What a disk that is sick may cost volumes on another one. */
const highestRatio = 2;
/** What disturbs the machine is gone after a while; a disk that is sick stays so. */
const mostLooks = 3;

/** A pool whose disk is well, beside one whose disk is not: how long lives of volumes take in it, and Probe. */
export class Neighbour {
  readonly #node: GuestNode;
  readonly #pool: string;
  readonly #beforeMs: number;
  #duringMs = Number.POSITIVE_INFINITY;
  #probeMs = 0;

  private constructor(node: GuestNode, pool: string, beforeMs: number) {
    this.#node = node;
    this.#pool = pool;
    this.#beforeMs = beforeMs;
  }

  /** To be called before the other disk is made to fail. */
  static async of(node: GuestNode, pool: string): Promise<Neighbour> {
    return new Neighbour(node, pool, await medianLifeMs(node, pool, lives));
  }

  /** Measures it while the other one is sick. */
  async meanwhile(): Promise<void> {
    const startedMs = performance.now();
    const { ready } = await this.#node.client.identity.Probe({});
    this.#probeMs = performance.now() - startedMs;
    assert.equal(ready?.value, true);
    for (let look = 0; look < mostLooks && this.#duringMs > highestRatio * this.#beforeMs; look++) {
      this.#duringMs = Math.min(this.#duringMs, await medianLifeMs(this.#node, this.#pool, lives));
    }
  }

  /** To be called when all is well again. */
  async assertUndisturbed(t: TestContext): Promise<void> {
    const afterMs = await medianLifeMs(this.#node, this.#pool, lives);
    // Of the two times in good health the longer: who else uses this machine changes from minute to minute.
    const ratio = this.#duringMs / Math.max(this.#beforeMs, afterMs);
    const figures = [this.#beforeMs, this.#duringMs, afterMs, this.#probeMs].map((ms) => ms.toFixed(0));
    t.diagnostic(`a life in the other pool took ${figures[0]} ms before, ${figures[1]} during, ${figures[2]} after`);
    t.diagnostic(`ratio ${ratio.toFixed(2)}; Probe ${figures[3]} ms`);
    assert.ok(ratio <= highestRatio, `the other pool is ${ratio.toFixed(1)} times as slow while a disk is sick`);
    assert.ok(this.#probeMs < this.#beforeMs, `Probe takes ${this.#probeMs} ms while a disk is sick`);
  }
}
