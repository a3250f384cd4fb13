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
import { killProcess, processes, processFile } from './processes.ts';

const parent = '/var/tmp';
const prefix = 'holdfast-cluster-';
const kubeletDirectory = '/var/lib/kubelet';

/**
 * Where one cluster has all its files. What carries its name belongs to it: processes with the directory in their
 * command line, and those in a cgroup with its name; that is how a later run finds what a killed one has left.
 */
export class ClusterDirectory implements AsyncDisposable {
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

  /** The name of its cgroup, too. */
  get name(): string {
    return basename(this.path);
  }

  /**
   * The kubelet's directory, which has to be this one: Kubernetes' own suite has it built in. It is a mount of a directory
   * in ours, shared, so that mounts made in it by containers are seen by all.
   */
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
    await this.#endProcesses();
    if (mountedDirectory(kubeletDirectory)?.endsWith(`/${this.name}/kubelet`) === true) undoMounts(kubeletDirectory);
    undoMounts(this.path);
    removeCgroup(this.name);
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
