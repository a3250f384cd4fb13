import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { Scratch } from '../../support/scratch.ts';
import { bundlePrograms } from '../machine/bundle.ts';
import { makeMemoryDisks } from '../machine/memory-disks.ts';
import { bootVirtualMachine } from '../machine/virtual-machine.ts';

export const kinds = ['lvm', 'thin', 'disk'] as const;
export type Kind = (typeof kinds)[number];

/** As many owners of volumes of each kind, in a machine of their own. */
export async function ownersInGuest(
  owners: Partial<Record<Kind, number>>,
  seed: number,
  say: (words: string) => void,
): Promise<void> {
  using scratch = new Scratch('vm');
  await using vm = await bootVirtualMachine({ scratch });
  await vm.run(makeMemoryDisks({ count: 1, sizeMiB: 160 }));
  const directory = await bundlePrograms('old-data', ['old-data-in-guest', 'driver']);
  for (const kind of kinds) {
    const count = owners[kind];
    if (count === undefined) continue;
    const command = `${process.execPath} ${directory}old-data-in-guest.mjs ${kind} /dev/sda ${count} ${seed}`;
    const log = scratch.join(`${kind}.log`);
    const running = vm.start(command, log);
    await running.ended;
    assert.equal(running.ending?.code, 0, running.lastWords());
    const lines = readFileSync(log, 'utf8').trim().split('\n');
    say(lines.filter((line) => !/^[0-9]+ of /.test(line)).join('; '));
  }
}
