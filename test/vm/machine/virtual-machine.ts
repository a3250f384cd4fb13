import { type ChildProcess, execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { SeededRandom } from '../../crash/seeded-random.ts';
import type { Scratch } from '../../support/scratch.ts';
import type { Loss, VolatileDisk } from '../disk/volatile-disk.ts';
import { makeInitramfs } from './initramfs.ts';
import { Link, MachineGone } from './link.ts';
import {
  addDrive,
  type Clock,
  type Network,
  type PluggedDisk,
  plugDisk,
  resizeDisk,
  startQemu,
  unplugDisk,
} from './qemu.ts';
import { type Outcome, type RunningCommand, runCommand, startCommand } from './run-command.ts';
import type { Tasks } from './tasks.ts';

const setup = fileURLToPath(new URL('../../../scripts/setup-vm.sh', import.meta.url));
/** Only failures take so long: alone on a machine a boot takes 5 seconds, among others a minute. Shorter than a test may take, so that the console is shown. */
const bootPatienceMs = 300_000;
const endPatienceMs = 300_000;
/** As a boot's. */
const commandPatienceMs = 480_000;
const consoleTailBytes = 6000;

export interface MachineOptions {
  /** Where its sockets and its console's log lie. */
  readonly scratch: Scratch;
  /** The first is /dev/vda; those on `scsi` are /dev/sda and so on. */
  readonly disks?: readonly VolatileDisk[];
  readonly memoryMiB?: number;
  /** The host's, unless it says another. */
  readonly clock?: Clock;
  /** It has none, unless this says so. */
  readonly network?: Network;
  /** How many NVMe disks can be plugged in while it runs: none, unless it says so. */
  readonly nvmePorts?: number;
  /** The kernel of the next Debian. */
  readonly hasNewerKernel?: boolean;
  /** Has SCSI, into which Google's disks can be plugged while it runs. */
  readonly hasScsi?: boolean;
}

/**
 * A virtual machine that runs Debian's kernel over the files of this machine: it reads them and writes to memory. What
 * is on its disks stays, through power cuts too; all else is new at each boot.
 */
export class VirtualMachine implements AsyncDisposable {
  readonly disks: readonly VolatileDisk[];
  readonly consolePath: string;
  /** Debian's udev, unpacked: the machine starts without it (udev.ts). */
  readonly udevDirectory: string;
  /** Has the `lvm` of a newer Debian than this machine's, for who puts it first in PATH. */
  readonly newerLvmDirectory: string;
  /** The same of an older one. */
  readonly olderLvmDirectory: string;
  /** Debian's NFS server, unpacked (nfs/server.sh). */
  readonly nfsDirectory: string;
  /** Debian's open-iscsi, unpacked (iscsi/target.sh). */
  readonly iscsiDirectory: string;
  /** Debian's GlusterFS, unpacked (gluster/server.sh). */
  readonly glusterDirectory: string;
  /** Debian's multipath-tools, unpacked (iscsi/target.sh). */
  readonly multipathDirectory: string;
  /** Samba, nbdkit and their clients: a tree for /usr (exec/servers.sh). */
  readonly execDirectory: string;
  boots = 0;
  readonly #options: MachineOptions;
  readonly #kernel: string;
  readonly #initramfs: string;
  readonly #tunnels = new Set<Server>();
  #qemu: ChildProcess | undefined;
  #link: Link | undefined;
  /** A test that took too long ends with its process: then all that shows why is told. */
  readonly #lastWords = () =>
    console.error(
      `a virtual machine is ended at work on: ${this.#link?.underWay().join('; ')}. Its console:\n${this.console()}`,
    );

  constructor(options: MachineOptions) {
    this.#options = options;
    this.disks = options.disks ?? [];
    this.consolePath = options.scratch.join('console.log');
    const wanted = options.hasNewerKernel ? ['newer-kernel'] : [];
    this.#kernel = execFileSync('bash', [setup, ...wanted], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'inherit'],
    }).trim();
    this.udevDirectory = join(dirname(this.#kernel), 'udev');
    this.nfsDirectory = join(dirname(this.#kernel), 'nfs');
    this.iscsiDirectory = join(dirname(this.#kernel), 'iscsi');
    this.glusterDirectory = join(dirname(this.#kernel), 'gluster');
    this.multipathDirectory = join(dirname(this.#kernel), 'multipath');
    this.execDirectory = join(dirname(this.#kernel), 'exec');
    this.newerLvmDirectory = join(dirname(this.#kernel), 'lvm-newer/bin');
    this.olderLvmDirectory = join(dirname(this.#kernel), 'lvm-older/bin');
    this.#initramfs = makeInitramfs(this.#kernel, options.scratch.path);
  }

  /** Starts it, and waits until it does what it is told. */
  async boot(): Promise<void> {
    const { clock = 'host', memoryMiB = 1024, network, hasScsi = false, nvmePorts = 0, scratch } = this.#options;
    const agentSocketPath = scratch.join(`agent-${++this.boots}`);
    const server = createServer().listen(agentSocketPath);
    const connected = once(server, 'connection', { signal: AbortSignal.timeout(bootPatienceMs) });
    const qemu = startQemu({
      kernel: this.#kernel,
      initramfs: this.#initramfs,
      drives: this.disks,
      agentSocketPath,
      consolePath: this.consolePath,
      monitorPath: this.#monitorPath,
      memoryMiB,
      clock,
      network,
      nvmePorts,
      hasScsi,
    });
    this.#qemu = qemu;
    process.once('exit', this.#lastWords);
    qemu.once('exit', () => this.#link?.cut());
    try {
      const [socket]: [Socket] = (await Promise.race([connected, rejectAtExit(qemu)])) as [Socket];
      this.#link = new Link(socket);
      await Promise.race([this.#link.ready, rejectAfter(bootPatienceMs)]);
    } catch (cause) {
      await this.#kill();
      throw new Error(`the virtual machine does not boot. Its console:\n${this.console()}`, { cause });
    } finally {
      server.close();
    }
  }

  /** Runs a command of the shell there. @throws if it ends with anything but 0 */
  async run(command: string, options: { readonly timeoutMs?: number } = {}): Promise<string> {
    const { code, signal, stderr, stdout } = await this.attempt(command, options);
    if (code !== 0)
      throw new Error(`in the virtual machine: ${command}\nended with ${code ?? signal}\n${stdout}${stderr}`);
    return stdout;
  }

  /** Runs a command of the shell there, however it ends; one that takes too long is killed, with all it started. */
  attempt(command: string, { timeoutMs = commandPatienceMs }: { readonly timeoutMs?: number } = {}): Promise<Outcome> {
    return runCommand(this.#alive, command, timeoutMs);
  }

  /** Starts a command of the shell there; what it says goes to a file of this machine. */
  start(command: string, logPath: string): RunningCommand {
    return startCommand(this.#alive, command, logPath);
  }

  /** Calls a function of tasks.ts there. */
  task<Name extends keyof Tasks>(
    name: Name,
    argument: Parameters<Tasks[Name]>[0],
  ): Promise<Awaited<ReturnType<Tasks[Name]>>> {
    return new Promise((resolve, reject) => {
      this.#alive.open(
        { type: 'task', name, argument },
        {
          cut: () => reject(new MachineGone(`the virtual machine went away during ${name}`)),
          done: (result) => {
            const { failure, value } = JSON.parse(result.toString());
            if (failure === undefined) resolve(value);
            else reject(new Error(`in the virtual machine: ${name}: ${failure}`));
          },
        },
      );
    });
  }

  /** A socket on this machine that leads to one in there, at whatever boot. */
  tunnel(path: string, localPath: string): void {
    const server = createServer((local) => this.#connect(local, path)).listen(localPath);
    this.#tunnels.add(server);
  }

  /** Pulls the plug: of the machine and of its disks, which lose what they have not made durable. */
  async cutPower(random: SeededRandom): Promise<Loss[]> {
    await this.#kill();
    return this.disks.map((disk) => disk.losePower(random));
  }

  /** Pulls a disk on scsi out of the running machine, as by hand: nobody in there hears of it before; it loses what it has not made durable. */
  async pull(disk: VolatileDisk, random: SeededRandom): Promise<Loss> {
    await unplugDisk(this.#monitorPath, disk);
    return disk.losePower(random);
  }

  /** Puts a disk back that was pulled; it may get another name there. */
  putBack(disk: VolatileDisk): Promise<void> {
    return addDrive(this.#monitorPath, disk);
  }

  /** Plugs a disk of a cloud into the running machine. */
  plug(disk: PluggedDisk): Promise<void> {
    return plugDisk(this.#monitorPath, disk);
  }

  /** Makes a disk of a cloud larger. */
  resize(disk: Pick<PluggedDisk, 'name'>, sizeBytes: number): Promise<void> {
    return resizeDisk(this.#monitorPath, disk, sizeBytes);
  }

  unplug(disk: Pick<PluggedDisk, 'name'>): Promise<void> {
    return unplugDisk(this.#monitorPath, disk);
  }

  /** Resets the machine, as its button does; the disks have power all along. */
  async reset(): Promise<void> {
    await this.#kill();
    await this.boot();
  }

  /** Shuts it down in order, and starts it. */
  async reboot(): Promise<void> {
    const qemu = this.#qemu;
    const ended = qemu === undefined ? undefined : once(qemu, 'exit', { signal: AbortSignal.timeout(endPatienceMs) });
    // As an init does at last: what can be unmounted is.
    await this.attempt('sync; umount --all --recursive --types ext4,xfs,btrfs; sync; busybox poweroff -f').catch(
      () => undefined,
    );
    await ended;
    await this.boot();
  }

  /** The end of what its kernel said, and what the agent could not send. */
  console(): string {
    return existsSync(this.consolePath) ? readFileSync(this.consolePath, 'utf8').slice(-consoleTailBytes) : '';
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#kill();
    for (const tunnel of this.#tunnels) tunnel.close();
  }

  get #monitorPath(): string {
    return this.#options.scratch.join('monitor');
  }

  get #alive(): Link {
    if (this.#link === undefined) throw new MachineGone('the virtual machine is off');
    return this.#link;
  }

  async #kill(): Promise<void> {
    this.#link?.cut();
    this.#link = undefined;
    const qemu = this.#qemu;
    this.#qemu = undefined;
    process.off('exit', this.#lastWords);
    if (qemu === undefined || qemu.exitCode !== null || qemu.signalCode !== null) return;
    const ended = once(qemu, 'exit');
    qemu.kill('SIGKILL');
    await ended;
  }

  #connect(local: Socket, path: string): void {
    local.on('error', () => undefined);
    if (this.#link === undefined) return void local.destroy();
    const channel = this.#link.open(
      { type: 'connect', path },
      { output: (bytes) => local.write(bytes), done: () => local.end(), cut: () => local.destroy() },
    );
    local.on('data', (bytes: Buffer) => channel.input(bytes));
    local.once('close', () => channel.end());
  }
}

/** A machine that is up. */
export async function bootVirtualMachine(options: MachineOptions): Promise<VirtualMachine> {
  const machine = new VirtualMachine(options);
  await machine.boot();
  return machine;
}

async function rejectAtExit(qemu: ChildProcess): Promise<never> {
  const [code, signal] = await once(qemu, 'exit');
  throw new Error(`QEMU ended with ${code ?? signal}`);
}

async function rejectAfter(timeMs: number): Promise<never> {
  await delay(timeMs, undefined, { ref: false });
  throw new Error(`not within ${timeMs / 1000} s`);
}
