import assert from 'node:assert/strict';
import { type CrashPoint, type StepName, stepNames } from '../../src/volume/step.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import type { DriverCommand } from './bundle.ts';
import { type CrashNode, makeNode } from './crash-node.ts';
import { interrupt } from './interruption.ts';
import { type Capacities, capacitiesOf, checkConsistent, checkEmpty, checkStopped, listIds } from './invariants.ts';
import type { Operation } from './operation.ts';
import { TestVolume } from './test-volume.ts';

/** What the callers do once the driver is back: try again, or think better of it. */
export const ways = ['replay', 'opposite'] as const;
export type Way = (typeof ways)[number];

/** What a start after a crash at this point had to do. */
export interface Recovery {
  readonly point: CrashPoint;
  readonly steps: ReadonlySet<StepName>;
}

/** One operation on a node of its own, to be interrupted again and again. A volume is there only during one try. */
export class Rehearsal implements AsyncDisposable {
  readonly #operation: Operation;
  readonly #scratch: Scratch;
  readonly #node: CrashNode;
  /** Of the empty pools. */
  readonly #capacities: Capacities;
  /** How often the operation passes each of its steps. */
  readonly passes = new Map<StepName, number>();
  /** Of the crashes so far. */
  readonly recoveries: Recovery[] = [];
  #tries = 0;

  private constructor(operation: Operation, scratch: Scratch, node: CrashNode, capacities: Capacities) {
    this.#operation = operation;
    this.#scratch = scratch;
    this.#node = node;
    this.#capacities = capacities;
  }

  static async open(operation: Operation, command: DriverCommand): Promise<Rehearsal> {
    const scratch = new Scratch('crash');
    const node = makeNode(command, scratch, operation.circumstances);
    try {
      await node.start({ traced: true });
      return new Rehearsal(operation, scratch, node, await capacitiesOf(node));
    } catch (error) {
      await node[Symbol.asyncDispose]();
      scratch[Symbol.dispose]();
      throw error;
    }
  }

  /** Without a crash: asserts that the operation passes the steps it says it does, and no others. */
  async checkSteps(): Promise<void> {
    const { operation, volume } = this.#begin();
    await operation.prelude(volume);
    await checkConsistent(this.#node);
    this.#node.takeSteps();
    const passes = new Map<string, number>();
    await operation.run(volume);
    await eventually(() => {
      for (const step of this.#node.takeSteps()) passes.set(step, (passes.get(step) ?? 0) + 1);
      assert.deepEqual([...passes.keys()].sort(), [...operation.steps].sort());
    });
    for (const step of operation.steps) this.passes.set(step, passes.get(step) ?? 0);
    await operation.checkDone?.(volume);
    await this.#finish(volume);
  }

  /** Kills the driver at the point, starts it again, goes the way, and lives the volume's life to its end. */
  async crash(point: CrashPoint, way: Way): Promise<void> {
    const { operation, volume } = this.#begin();
    await this.#interrupt(operation, volume, point);
    const node = this.#node;
    node.takeSteps();
    await node.start({ traced: true });
    await checkConsistent(node);
    const recovered = new Set<string>(node.takeSteps());
    this.recoveries.push({ point, steps: new Set(stepNames.filter((name) => recovered.has(name))) });
    await this.#goOn(operation, volume, point, way);
  }

  /** Kills the driver at the point, and the next one in what it does about that; goes on with the one after. */
  async crashTwice(point: CrashPoint, inRecovery: CrashPoint, way: Way): Promise<void> {
    const { operation, volume } = this.#begin();
    await this.#interrupt(operation, volume, point);
    const node = this.#node;
    node.spawn({ at: inRecovery });
    await node.died();
    await node.start();
    await checkConsistent(node);
    await this.#goOn(operation, volume, point, way);
  }

  async #interrupt(operation: Operation, volume: TestVolume, point: CrashPoint): Promise<void> {
    await operation.prelude(volume);
    await checkConsistent(this.#node);
    await interrupt(this.#node, point, () => operation.run(volume));
  }

  /** After a crash at the point, with a driver that works. */
  async #goOn(operation: Operation, volume: TestVolume, point: CrashPoint, way: Way): Promise<void> {
    const node = this.#node;
    const isThere = (await listIds(node)).includes(volume.id);
    assert.equal(isThere, operation.isThereAfter?.(point) ?? true, 'whether the volume is there');
    await (way === 'replay' ? operation.run(volume) : operation.opposite(volume));
    await checkConsistent(node);
    await (way === 'replay' ? operation.checkDone?.(volume) : operation.checkUndone?.(volume));
    await this.#finish(volume);
  }

  /** Stops the driver in order, after all that has happened to it. */
  async end(): Promise<void> {
    const ending = await this.#node.stop();
    assert.deepEqual(ending, { code: 0, signal: null }, this.#node.lastWords());
    await checkStopped(this.#node);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    using _scratch = this.#scratch;
    await this.#node[Symbol.asyncDispose]();
  }

  #begin(): { operation: Operation; volume: TestVolume } {
    const operation = this.#operation;
    const name = `volume-${this.#tries++}`;
    const volume = operation.makeVolume?.(this.#node, name) ?? new TestVolume(this.#node, name, operation.content);
    return { operation, volume };
  }

  /** From wherever the volume is: undone, used once more with all that was written before, and deleted (T05). */
  async #finish(volume: TestVolume): Promise<void> {
    await volume.unpublish();
    await volume.unstage();
    await volume.detach();
    await volume.create();
    await volume.attach();
    await volume.stage();
    await volume.publish();
    await volume.checkData();
    await volume.write();
    await volume.unpublish();
    await volume.unstage();
    await volume.detach();
    await volume.destroy();
    await this.#operation.cleanUp?.(volume);
    await checkEmpty(this.#node, this.#capacities);
  }
}
