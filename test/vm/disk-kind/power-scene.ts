import { parsePayload } from '../../../src/pool/kinds/disk/label/payload.ts';
import { readSlots } from '../../../src/pool/kinds/disk/label/slots.ts';
import { parseRecord } from '../../../src/volume/record.ts';
import { eventually } from '../../support/eventually.ts';
import type { GuestNode } from '../node/guest-node.ts';
import { holds, type Sight } from '../power/facts.ts';
import { deadlineMs, list, undeletableOf } from '../power/look.ts';
import type { PowerScene } from '../power/scene.ts';
import { linkOf, prepareLinks } from './links.ts';

const mebibyte = 1n << 20n;
/** A superblock of ext4 that is torn between sectors of 512 bytes is repaired only where there are clones (docs/operations.md). */
const atomicBytes = 4096;
const disks = [
  { name: 'first', sizeMiB: 128n, contents: ['ext4', 'block'] },
  { name: 'second', sizeMiB: 128n, contents: ['ext4'] },
  { name: 'third', sizeMiB: 512n, contents: ['xfs'] },
  { name: 'fourth', sizeMiB: 128n, contents: ['block'] },
] as const;
const section = (name: string) => `  ${name}: { kind: disk, device: ${linkOf(name)}, sickAfter: 10m }`;

/** Disks that are volumes. */
export const diskScene: PowerScene = {
  setup: {
    config: `expansion: node\ndefaultPool: first\npools:\n${disks.map(({ name }) => section(name)).join('\n')}\n`,
    pools: disks.map(({ name }) => name),
    disks: disks.map(({ name, sizeMiB }) => ({ name, sizeGiB: Number(sizeMiB) / 1024, bus: 'scsi', atomicBytes })),
    prepare: prepareLinks(disks.length),
  },
  users: disks.map(({ contents, name, sizeMiB }) => ({ pool: name, contents, onlyBytes: (sizeMiB - 4n) * mebibyte })),
  afterBoot: prepareLinks(disks.length),
  look,
};

async function look(node: GuestNode): Promise<Sight> {
  const { snapshotIds, volumeIds, volumes } = await list(node);
  let records = await recordsOn(node);
  await eventually(async () => {
    const found = await Promise.all(disks.map(({ name }) => objectOn(node, name)));
    const half = found.filter((object) => object !== undefined && object.state !== 'volume');
    holds(half.length === 0, `a disk has something half done on it: ${half.map((object) => object?.name)}`);
    records = await recordsOn(node);
    const ids = records.map(({ id }) => id).sort();
    holds(`${ids}` === `${volumeIds}`, `the disks have ${ids}, but ListVolumes ${volumeIds}`);
  }, deadlineMs);
  return { volumes, snapshots: new Set(snapshotIds), undeletable: undeletableOf(records) };
}

async function recordsOn(node: GuestNode) {
  const found = await Promise.all(disks.map(({ name }) => objectOn(node, name)));
  return found.flatMap((object) =>
    object?.record === undefined ? [] : [parseRecord(object.record, `on ${object.name}`)],
  );
}

async function objectOn(node: GuestNode, name: string) {
  const text = await node.vm.run(
    `dd if=$(readlink ${linkOf(name)}) bs=64K skip=16 count=2 iflag=direct status=none | base64 -w0`,
  );
  const found = readSlots(Buffer.from(text, 'base64'));
  holds(found.kind === 'slot', `the label of ${name} cannot be read`);
  return found.kind === 'slot' ? parsePayload(found.slot.text, name).object : undefined;
}
