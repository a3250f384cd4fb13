import { readlinkSync } from 'node:fs';
import { runToEnd } from '../command.ts';
import { Daemon } from '../daemon.ts';
import type { ClusterDirectory, NodePlace } from '../directory.ts';

/** A mount namespace and a network namespace: what makes a machine of its own of a part of this one. */
export class Namespaces implements AsyncDisposable {
  /** Of the process that keeps them. */
  readonly pid: number;
  readonly #keeper: Daemon;

  private constructor(keeper: Daemon) {
    this.#keeper = keeper;
    this.pid = keeper.pid;
  }

  static async make(directory: ClusterDirectory, place: NodePlace): Promise<Namespaces> {
    const keeper = new Daemon({
      name: 'namespaces',
      // The directory in its command line tells whose it is.
      command: [
        ...(['unshare', '--mount', '--net', '--propagation', 'private'] as const),
        ...['tail', '--follow', directory.join('owner')],
      ],
      logFile: `${place.makeDirectory('logs')}/namespaces.log`,
    });
    await keeper.ready(async () => {
      const [own, theirs] = [process.pid, keeper.pid].map((pid) => readlinkSync(`/proc/${pid}/ns/mnt`));
      if (own === theirs) throw new Error('it has none of its own yet');
    });
    return new Namespaces(keeper);
  }

  /** A command as it has to be started to run in there. */
  command(command: readonly string[]): [string, ...string[]] {
    return ['nsenter', `--target=${this.pid}`, '--mount', '--net', '--', ...command];
  }

  /** Runs a program in there; what it printed. */
  run([program, ...parameters]: readonly [string, ...string[]]): Promise<string> {
    const [enter, ...rest] = this.command([program, ...parameters]);
    return runToEnd(enter, rest);
  }

  /** Mounts a directory somewhere in there, shared, so that mounts made in it by containers are seen by all there. */
  async share(source: string, target: string): Promise<void> {
    await this.run(['mount', '--bind', source, target]);
    await this.run(['mount', '--make-rshared', target]);
  }

  /** A path of in there, as it is to be opened from out here. */
  seen(path: string): string {
    return `/proc/${this.pid}/root${path}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#keeper.kill();
  }
}
