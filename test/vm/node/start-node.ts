import type { TestContext } from 'node:test';
import { buildBundle } from '../../../scripts/build.ts';
import { Scratch } from '../../support/scratch.ts';
import { VolatileDisk } from '../disk/volatile-disk.ts';
import { startUdev } from '../machine/udev.ts';
import { bootVirtualMachine, type VirtualMachine } from '../machine/virtual-machine.ts';
import { GuestNode } from './guest-node.ts';

const gibibyte = 2 ** 30;
const systemBytes = gibibyte;
/**
 * As nearly all disks write today. ext4 has its superblock in two sectors of 512 bytes: torn between them it is repaired
 * only in a pool that can clone, and this disk has one that cannot (docs/operations.md).
 */
const systemAtomicBytes = 4096;

export interface NodeSetup {
  /** The text of the driver's configuration file. */
  readonly config: string;
  /** The pools in it. */
  readonly pools: readonly string[];
  /** Disks beside the node's own, by name and size in GiB: /dev/vdb and so on; /dev/sda and so on for those on scsi. */
  readonly disks: readonly {
    readonly name: string;
    readonly sizeGiB: number;
    readonly bus?: 'scsi';
    readonly serial?: string;
    readonly atomicBytes?: number;
    readonly sectorBytes?: 512 | 4096;
  }[];
  /** What its driver is told beside that. */
  readonly environment?: Readonly<Record<string, string>>;
  /** A command of the shell after the first boot and before the first driver. */
  readonly prepare?: string | ((vm: VirtualMachine) => string);
  /** How the driver is started there, if not as a process of the node beside all others. */
  readonly program?: string;
  /** udev is at work there before that command. */
  readonly hasUdev?: boolean;
}

/** A node in a virtual machine with its driver; all of it goes on disposal. */
export interface StartedNode extends AsyncDisposable {
  readonly node: GuestNode;
  readonly disks: readonly VolatileDisk[];
  /** What its disks lie in, each with its name and `.disk`. */
  readonly scratch: Scratch;
}

/** A new node, for one test. If that fails, the machine's console and the driver's log are shown. */
export async function startNode(
  t: TestContext,
  { config, disks, environment = {}, hasUdev = false, pools, prepare, program }: NodeSetup,
): Promise<StartedNode> {
  await using stack = new AsyncDisposableStack();
  const scratch = stack.use(new Scratch('vm'));
  const system = stack.use(
    new VolatileDisk(scratch, { name: 'system', sizeBytes: systemBytes, atomicBytes: systemAtomicBytes }),
  );
  const others = disks.map(({ sizeGiB, ...disk }) =>
    stack.use(new VolatileDisk(scratch, { ...disk, sizeBytes: sizeGiB * gibibyte })),
  );
  const runs = program ?? `${process.execPath} ${(await buildBundle(scratch.join('bundle'))).file}`;
  const vm = stack.use(await bootVirtualMachine({ scratch, disks: [system, ...others] }));
  const node = new GuestNode({ vm, scratch, program: runs, config, pools, environment });
  const words: { readonly console: () => string; readonly driver: () => string } = {
    console: () => vm.console(),
    driver: () => node.lastWords(),
  };
  // Read now, while they are there; shown later, when it is known whether they are wanted.
  stack.defer(() => {
    const [console_, driver] = [words.console(), words.driver()];
    t.after(() => {
      if (!t.passed) console.error(`The console of the virtual machine:\n${console_}\nThe driver:\n${driver}`);
    });
  });
  await node.format();
  await node.mount();
  if (hasUdev) await startUdev(vm);
  if (prepare !== undefined) await vm.run(typeof prepare === 'string' ? prepare : prepare(vm));
  await node.start();
  const kept = stack.move();
  return { node, scratch, disks: [system, ...others], [Symbol.asyncDispose]: () => kept.disposeAsync() };
}
