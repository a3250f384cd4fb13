import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Caller } from './caller.ts';
import type { DriverPlaces, PoolName } from './driver-process.ts';
import { live } from './life.ts';

export interface CrowdReport {
  readonly elapsedMs: number;
  /** For each life the milliseconds of each RPC, in the order of `rpcs`. */
  readonly stepMs: readonly (readonly number[])[];
}

/** Callers that live one volume after another, all at the same time, each with directories of its own. */
export class Crowd {
  readonly #caller: Caller;
  readonly #places: DriverPlaces;
  readonly #signal: AbortSignal;
  #lives = 0;

  constructor(caller: Caller, places: DriverPlaces, signal: AbortSignal) {
    this.#caller = caller;
    this.#places = places;
    this.#signal = signal;
  }

  /** The time includes the unlinking of what was deleted, which the driver does behind its answer. */
  async run(pool: PoolName, lives: number, callers: number): Promise<CrowdReport> {
    const stepMs: number[][] = [];
    let left = lives;
    const callLives = async (caller: number) => {
      const paths = this.#pathsOf(caller);
      while (left-- > 0) {
        const name = `bench-${caller}-${++this.#lives}`;
        stepMs.push(await live({ caller: this.#caller, pool, name, ...paths, signal: this.#signal }));
      }
    };
    const start = performance.now();
    const outcomes = await Promise.allSettled(Array.from({ length: callers }, (_, caller) => callLives(caller)));
    const failed = outcomes.find((outcome) => outcome.status === 'rejected');
    if (failed !== undefined) throw failed.reason;
    await this.#trashEmptied(pool);
    return { elapsedMs: performance.now() - start, stepMs };
  }

  #pathsOf(caller: number): { readonly stagingPath: string; readonly targetPath: string } {
    const stagingPath = join(this.#places.kubelet, 'plugins', `${caller}`, 'globalmount');
    const pod = join(this.#places.kubelet, 'pods', `${caller}`);
    mkdirSync(stagingPath, { recursive: true });
    mkdirSync(pod, { recursive: true });
    return { stagingPath, targetPath: join(pod, 'mount') };
  }

  async #trashEmptied(pool: PoolName): Promise<void> {
    const trash = join(this.#places.poolRoot(pool), 'trash');
    while (readdirSync(trash).length > 0) {
      this.#signal.throwIfAborted();
      await delay(1);
    }
  }
}
