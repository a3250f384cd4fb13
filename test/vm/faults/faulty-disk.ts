import type { VirtualMachine } from '../machine/virtual-machine.ts';

/** Not its beginning: LVM takes a disk that has its label in two devices for two. */
const startSectors = 8192;

/** A disk that can be made to fail: a device over it (device-mapper), whose table says what becomes of requests. */
export class FaultyDisk {
  /** Where the device is. */
  readonly path: string;
  /** The command of the shell that makes it. */
  readonly making: string;
  readonly #name: string;
  readonly #below: string;

  constructor(name: string, below: string) {
    this.#name = name;
    this.#below = below;
    this.path = `/dev/mapper/${name}`;
    this.making = `dmsetup create ${name} --table "${this.#table('linear')}"`;
  }

  /** From now on no request is answered. */
  async hang(vm: VirtualMachine): Promise<void> {
    await vm.run(`dmsetup suspend --nolockfs --noflush ${this.#name}`);
  }

  /** What is written ends with an error; what is there can be read. */
  async refuseWrites(vm: VirtualMachine): Promise<void> {
    // Well for no seconds, ill for a day.
    await this.#become(vm, this.#table('flakey', '0 86400 1 error_writes'));
  }

  /** Each request ends with an error. */
  async fail(vm: VirtualMachine): Promise<void> {
    await this.#become(vm, `0 ${this.#sectors} error`);
  }

  /** Each request takes so much longer. */
  async slowDown(vm: VirtualMachine, delayMs: number): Promise<void> {
    await this.#become(vm, this.#table('delay', `${delayMs}`));
  }

  async mend(vm: VirtualMachine): Promise<void> {
    await this.#become(vm, this.#table('linear'));
  }

  async #become(vm: VirtualMachine, table: string): Promise<void> {
    // Without lockfs: a filesystem that has shut down cannot be frozen.
    await vm.run(`dmsetup load ${this.#name} --table "${table}" && dmsetup resume --nolockfs ${this.#name}`);
  }

  #table(target: string, options = ''): string {
    return `0 ${this.#sectors} ${target} ${this.#below} ${startSectors} ${options}`;
  }

  get #sectors(): string {
    return `$(($(blockdev --getsz ${this.#below}) - ${startSectors}))`;
  }
}
