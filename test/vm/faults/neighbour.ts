import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { GuestNode } from '../node/guest-node.ts';
import { medianLifeMs } from '../node/life.ts';

const lives = 5;

/**
 * A pool whose disk is well, beside one whose disk is not. Its volumes live whole lives while the other disk is sick: none
 * of their calls fails or waits for it. How long they take is told, not judged: that would judge the machine.
 */
export class Neighbour {
  readonly #node: GuestNode;
  readonly #pool: string;
  readonly #beforeMs: number;
  #duringMs: number | undefined;

  private constructor(node: GuestNode, pool: string, beforeMs: number) {
    this.#node = node;
    this.#pool = pool;
    this.#beforeMs = beforeMs;
  }

  /** To be called before the other disk is made to fail. */
  static async of(node: GuestNode, pool: string): Promise<Neighbour> {
    return new Neighbour(node, pool, await medianLifeMs(node, pool, lives));
  }

  /** To be called while the other one is sick. */
  async meanwhile(): Promise<void> {
    const { ready } = await this.#node.client.identity.Probe({});
    assert.equal(ready?.value, true);
    this.#duringMs = await medianLifeMs(this.#node, this.#pool, lives);
  }

  /** To be called when all is well again. */
  async assertUndisturbed(t: TestContext): Promise<void> {
    assert.ok(this.#duringMs !== undefined, 'nothing was done while the other disk was sick');
    const afterMs = await medianLifeMs(this.#node, this.#pool, lives);
    const [before, during, after] = [this.#beforeMs, this.#duringMs, afterMs].map((ms) => ms.toFixed(0));
    t.diagnostic(`a life in the other pool took ${before} ms before, ${during} during, ${after} after`);
  }
}
