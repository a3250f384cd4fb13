import assert from 'node:assert/strict';
import type { CrashPoint } from '../../src/volume/step.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import type { DriverCommand } from './bundle.ts';
import { CrashNode } from './crash-node.ts';
import { fileConfig, makePool } from './crash-pool.ts';
import { type Capacities, capacitiesOf, checkConsistent, checkEmpty, checkStopped } from './invariants.ts';
import { ext4, used } from './operation.ts';
import type { Opening } from './operations/openings.ts';
import { TestVolume } from './test-volume.ts';

/** A start, on a node of its own. */
export class OpeningRehearsal implements AsyncDisposable {
  readonly #opening: Opening;
  readonly #scratch: Scratch;
  readonly #node: CrashNode;
  /** Of the empty pool, if it was there before. */
  #capacities: Capacities | undefined;

  constructor(opening: Opening, command: DriverCommand) {
    this.#opening = opening;
    this.#scratch = new Scratch('crash');
    const pool = makePool(this.#scratch, opening.pool, opening.sizes?.before);
    this.#node = new CrashNode({ command, scratch: this.#scratch, circumstances: {}, pools: [pool] });
  }

  /** Without a crash: asserts that the start passes the steps it says it does, and no others. */
  async checkSteps(): Promise<void> {
    const finish = await this.#prelude();
    const passed = new Set<string>();
    await this.#node.start({ traced: true });
    await eventually(() => {
      for (const step of this.#node.takeSteps()) passed.add(step);
      assert.deepEqual([...passed].sort(), [...this.#opening.steps].sort());
    });
    await this.#checkWhole(finish);
  }

  /** Kills the driver in its start, and starts it again. */
  async crash(point: CrashPoint): Promise<void> {
    const finish = await this.#prelude();
    this.#node.spawn({ at: point });
    await this.#node.died();
    await this.#node.start();
    await this.#checkWhole(finish);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    using _scratch = this.#scratch;
    await this.#node[Symbol.asyncDispose]();
  }

  async #prelude(): Promise<() => Promise<void>> {
    const { prelude, sizes } = this.#opening;
    if (prelude === undefined) return async () => undefined;
    const node = this.#node;
    await node.start();
    this.#capacities = await capacitiesOf(node);
    const finish = await prelude(node);
    await node.kill();
    const pool = node.defaultPool;
    if (sizes !== undefined) node.configure({ ...pool, config: fileConfig(pool.location, sizes.now) });
    return finish;
  }

  /** What was there is there, what is new works, and in the end nothing is left. */
  async #checkWhole(finish: () => Promise<void>): Promise<void> {
    const node = this.#node;
    await checkConsistent(node);
    await finish();
    const another = new TestVolume(node, 'another', ext4);
    await used(another);
    await another.delete();
    await checkEmpty(node, await this.#expectedCapacities());
    assert.deepEqual(await node.stop(), { code: 0, signal: null }, node.lastWords());
    await checkStopped(node);
  }

  /** As before the crash; unless the pool has grown, to some four times of what it was. */
  async #expectedCapacities(): Promise<Capacities> {
    const now = await capacitiesOf(this.#node);
    if (this.#opening.sizes === undefined) return this.#capacities ?? now;
    for (const [name, bytes] of now) assert.ok(bytes > 3n * (this.#capacities?.get(name) ?? 0n), `only ${bytes} bytes`);
    return now;
  }
}
