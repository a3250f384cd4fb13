import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { mountedDirectory, undoMounts } from '../../support/left-behind.ts';
import { removeCgroup } from './cgroup.ts';
import { runToEnd } from './command.ts';
import { removeNetwork } from './fleet/network.ts';
import { loopsInto } from './loops.ts';
import { killProcess, processes, processFile } from './processes.ts';
import { waitFor } from './waiting.ts';

const parent = '/var/tmp';
/** Nothing else may begin with it: what has no owner is removed, with its processes. */
const prefix = 'holdfast-cluster-';

/** The kubelet's directory, which has to be this one: Kubernetes' own suite has it built in. */
export const kubeletDirectory = '/var/lib/kubelet';

/** Where one node has its files, and below which cgroup its processes are. */
export interface NodePlace {
  readonly cgroup: string;
  join(...parts: string[]): string;
  /** A directory in it. */
  makeDirectory(...parts: string[]): string;
}

/**
 * Where one cluster has all its files. What carries its name belongs to it: processes with the directory in their
 * command line, and those in a cgroup with its name; that is how a later run finds what a killed one has left.
 */
export class ClusterDirectory implements AsyncDisposable, NodePlace {
  readonly path: string;

  private constructor(path: string) {
    this.path = path;
  }

  /** A new one, after whatever clusters of processes that are gone have left has been removed. */
  static async make(): Promise<ClusterDirectory> {
    for (const name of readdirSync(parent).filter((entry) => entry.startsWith(prefix))) {
      const left = new ClusterDirectory(join(parent, name));
      if (left.#hasOwner()) continue;
      console.error(`cluster: removing what a run that was killed has left in ${left.path}`);
      await left[Symbol.asyncDispose]();
    }
    const directory = new ClusterDirectory(mkdtempSync(join(parent, prefix)));
    writeFileSync(directory.#ownerFile, `${process.pid} ${startOf(process.pid)}`);
    return directory;
  }

  get name(): string {
    return basename(this.path);
  }

  get cgroup(): string {
    return this.name;
  }

  /** The place of one of several nodes. */
  ofNode(node: string): NodePlace {
    return {
      cgroup: `${this.name}/${node}`,
      join: (...parts) => this.join(node, ...parts),
      makeDirectory: (...parts) => this.makeDirectory(node, ...parts),
    };
  }

  /** As a mount of a directory in ours, shared, so that mounts made in it by containers are seen by all. */
  makeKubeletDirectory(): string {
    mkdirSync(kubeletDirectory, { recursive: true });
    if (readdirSync(kubeletDirectory).length > 0) {
      throw new Error(`${kubeletDirectory} is not empty: this machine has a kubelet, or had one`);
    }
    this.#share(this.makeDirectory('kubelet'), kubeletDirectory);
    return kubeletDirectory;
  }

  /** A directory in which containers can make mounts that are seen outside of them. */
  makeSharedDirectory(...parts: string[]): string {
    const path = this.makeDirectory(...parts);
    this.#share(path, path);
    return path;
  }

  #share(source: string, target: string): void {
    execFileSync('mount', ['--bind', source, target]);
    execFileSync('mount', ['--make-rshared', target]);
  }

  join(...parts: string[]): string {
    return join(this.path, ...parts);
  }

  /** A directory in it. */
  makeDirectory(...parts: string[]): string {
    const path = this.join(...parts);
    mkdirSync(path, { recursive: true });
    return path;
  }

  /** Ends every process of the cluster, undoes its mounts and removes its files. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#detachLoops();
    await this.#endProcesses();
    removeNetwork(this.name);
    if (mountedDirectory(kubeletDirectory)?.endsWith(`/${this.name}/kubelet`) === true) undoMounts(kubeletDirectory);
    undoMounts(this.path);
    // A process that was killed leaves its cgroup a moment after its command line is gone.
    await waitFor('its cgroups to be empty', () => removeCgroup(this.name));
    rmSync(this.path, { recursive: true, force: true });
  }

  get #ownerFile(): string {
    return this.join('owner');
  }

  #hasOwner(): boolean {
    const madeMs = statSync(this.path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
    // Somebody else may have made it just now, and not have written who it is.
    if (!existsSync(this.#ownerFile)) return Date.now() - madeMs < 60_000;
    const [pid, start] = readFileSync(this.#ownerFile, 'utf8').split(' ');
    return startOf(Number(pid)) === start;
  }

  /**
   * Nodes with mounts of their own take them along when their processes end, and nobody could tell any more whose the
   * devices over files of their pools are. One that is in use goes with its last user.
   */
  async #detachLoops(): Promise<void> {
    const pool = join(this.path, 'holdfast', 'pools', 'default');
    const pools = this.#processes().map((pid) => `/proc/${pid}/root${pool}`);
    const devices = await Promise.all(pools.filter((path) => existsSync(path)).map(loopsInto));
    for (const device of new Set(devices.flat()))
      await runToEnd('losetup', ['--detach', device]).catch(() => undefined);
  }

  async #endProcesses(): Promise<void> {
    // A shim that dies leaves its containers, and a process may start another while we look: until none is left.
    for (let round = 0; round < 50; round += 1) {
      const left = this.#processes();
      if (left.length === 0) return;
      for (const pid of left) killProcess(pid);
      await delay(100);
    }
    throw new Error(`processes of ${this.path} do not end: ${this.#processes().join(', ')}`);
  }

  #processes(): number[] {
    return processes()
      .filter(({ pid }) => pid !== process.pid)
      .filter(({ commandLine, cgroups }) => commandLine.includes(`${this.path}/`) || cgroups.includes(`/${this.name}`))
      .map(({ pid }) => pid);
  }
}

/** When a process was started, which its number does not tell; empty if there is none. */
function startOf(pid: number): string {
  return processFile(pid, 'stat').split(') ').at(-1)?.split(' ')[19] ?? '';
}
