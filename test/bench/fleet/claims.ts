import { setTimeout as delay } from 'node:timers/promises';
import { claimOn } from '../../deploy/fleet-cluster.ts';
import { percentile } from '../statistics.ts';
import type { Kubernetes } from './kubernetes.ts';
import { forEach } from './kubernetes.ts';

const namespace = 'default';
const path = `/api/v1/namespaces/${namespace}/persistentvolumeclaims`;

/** A claim that the scheduler has given to a node. */
export interface PlannedClaim {
  readonly name: string;
  readonly node: string;
}

/** From the request for a claim to the news that it is bound. */
export interface ClaimTimes {
  readonly claims: number;
  readonly seconds: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** How long nothing may be bound before the run is given up. */
const patienceMs = 180_000;

/** Makes claims and hears when they are bound. */
export class Claims {
  readonly #kubernetes: Kubernetes;
  readonly #madeAtMs = new Map<string, number>();
  readonly #boundAfterMs = new Map<string, number>();

  private constructor(kubernetes: Kubernetes) {
    this.#kubernetes = kubernetes;
  }

  static async watch(kubernetes: Kubernetes): Promise<Claims> {
    const claims = new Claims(kubernetes);
    await kubernetes.watchBound(namespace, (name) => claims.#bound(name));
    return claims;
  }

  /** @param perSecond how many are made in a second; undefined: all at once */
  async make(planned: readonly PlannedClaim[], perSecond?: number): Promise<ClaimTimes> {
    const startMs = performance.now();
    if (perSecond === undefined) await forEach(planned, 16, (claim) => this.#make(claim));
    else {
      for (const [index, claim] of planned.entries()) {
        await delay(Math.max(0, startMs + (index * 1000) / perSecond - performance.now()));
        await this.#make(claim);
      }
    }
    const times = await this.#allBound(planned);
    return {
      claims: planned.length,
      seconds: (performance.now() - startMs) / 1000,
      p50Ms: percentile(times, 0.5),
      p99Ms: percentile(times, 0.99),
    };
  }

  async #make({ name, node }: PlannedClaim): Promise<void> {
    this.#madeAtMs.set(name, performance.now());
    await this.#kubernetes.create(path, claimOn(node, name));
  }

  #bound(name: string): void {
    const madeAtMs = this.#madeAtMs.get(name);
    if (madeAtMs === undefined || this.#boundAfterMs.has(name)) return;
    this.#boundAfterMs.set(name, performance.now() - madeAtMs);
  }

  async #allBound(planned: readonly PlannedClaim[]): Promise<number[]> {
    let known = 0;
    for (let changedAtMs = performance.now(); ; ) {
      const times = planned.flatMap(({ name }) => this.#boundAfterMs.get(name) ?? []);
      if (times.length === planned.length) return times;
      if (times.length > known) changedAtMs = performance.now();
      known = times.length;
      if (performance.now() - changedAtMs > patienceMs) {
        throw new Error(`only ${known} of ${planned.length} claims are bound, and nothing happens any more`);
      }
      await delay(50);
    }
  }
}
