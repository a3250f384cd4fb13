import assert from 'node:assert/strict';
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { DriverCommand } from '../crash/bundle.ts';
import { type Circumstances, type CrashNode, makeNode } from '../crash/crash-node.ts';
import { type Capacities, capacitiesOf, checkConsistent, checkEmpty, checkStopped } from '../crash/invariants.ts';
import { loopsOver, mountsBelow } from '../crash/kernel-sight.ts';
import { Scratch } from '../support/scratch.ts';
import { Canary } from './canary.ts';

/** A node with a driver at work, and around its directories what it must not touch. */
export class HostileNode implements AsyncDisposable {
  readonly node: CrashNode;
  /** Paths that lead out of the kubelet's directory, or into what is not the driver's. */
  readonly forbiddenPaths: readonly string[];
  readonly #scratch: Scratch;
  readonly #canaries: readonly Canary[];
  /** In the kubelet's directory, as a pod or a mistake may leave them there. */
  #props: Canary;
  #capacities: Capacities = new Map();

  private constructor(scratch: Scratch, node: CrashNode) {
    this.#scratch = scratch;
    this.node = node;
    const { dataDirectory, defaultPool, kubeletDirectory: kubelet } = node;
    for (const directory of ['plugins', 'pods']) mkdirSync(join(kubelet, directory), { recursive: true });
    const canary = Canary.plant(scratch.join('canary'));
    // What begins with the kubelet's path is not yet below it.
    const beside = Canary.plant(`${kubelet}-beside`);
    this.#props = plantProps(join(kubelet, 'props'), canary.path);
    this.#canaries = [canary, beside];
    const outside = [canary.path, beside.path, dataDirectory, defaultPool.root, '/etc', '/proc/self/root/etc', '/dev'];
    const doors = ['out', 'up/canary', 'loop', 'file', 'over/there'].map((door) => join(this.#props.path, door));
    this.forbiddenPaths = [
      ...outside.flatMap((path) => [path, `${path}/x`, `${path}/empty`, `${path}/full/x`]),
      ...doors.flatMap((path) => [path, `${path}/empty`, `${path}/x`]),
      ...[`${kubelet}/../canary/empty`, `${kubelet}/pods/../../canary/x`, `${kubelet}/./../canary/file`],
      ...[kubelet, `${kubelet}/`, `${kubelet}/.`, `${kubelet}/pods/..`, `/proc/self/cwd${kubelet}/../x`],
    ];
  }

  /** A directory outside, for links to lead to: it has the names of what is looked for inside. */
  get decoy(): string {
    return this.#scratch.join('canary');
  }

  static async open(command: DriverCommand, circumstances?: Circumstances): Promise<HostileNode> {
    const scratch = new Scratch('hostile');
    const hostile = new HostileNode(scratch, makeNode(command, scratch, circumstances));
    try {
      await hostile.node.start();
      hostile.#capacities = await capacitiesOf(hostile.node);
      return hostile;
    } catch (error) {
      await hostile[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Asserts that nothing was touched that is not the driver's, and that no volume is seen outside of the kubelet's directory. */
  checkUntouched(): void {
    for (const canary of [...this.#canaries, this.#props]) canary.check();
    const { defaultPool, kubeletDirectory } = this.node;
    const devices = new Set(loopsOver(defaultPool.root).map(({ number }) => `7:${number}`));
    for (const { device, target } of mountsBelow('')) {
      if (devices.has(device)) assert.ok(target.startsWith(`${kubeletDirectory}/`), `a volume is mounted at ${target}`);
    }
  }

  /** Asserts that records, data, devices and mounts agree, and that the driver is the one that was started. */
  async checkConsistent(): Promise<void> {
    this.checkUntouched();
    await checkConsistent(this.node);
    assert.doesNotMatch(this.node.lastWords(), /this is a bug|"stack"/);
  }

  /** Asserts that nothing is left once `undoAll` is done. */
  async checkEmpty(): Promise<void> {
    this.checkUntouched();
    const { path } = this.#props;
    rmSync(path, { recursive: true });
    await checkEmpty(this.node, this.#capacities);
    this.#props = plantProps(path, this.#scratch.join('canary'));
    // It was not the driver that changed what its links lead to.
    for (const canary of this.#canaries) canary.check();
  }

  async stop(): Promise<void> {
    assert.deepEqual(await this.node.stop(), { code: 0, signal: null }, this.node.lastWords());
    await checkStopped(this.node);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.node[Symbol.asyncDispose]();
    } finally {
      this.#scratch[Symbol.dispose]();
    }
  }
}

/** Symbolic links and files in the way of a path. */
function plantProps(path: string, canaryPath: string): Canary {
  mkdirSync(join(path, 'over'), { recursive: true });
  symlinkSync(canaryPath, join(path, 'out'));
  symlinkSync('../..', join(path, 'up'));
  symlinkSync('loop', join(path, 'loop'));
  symlinkSync(join(canaryPath, 'empty'), join(path, 'over', 'there'));
  writeFileSync(join(path, 'file'), 'not a volume\n');
  return Canary.watch(path);
}
