import { listStacks, type Stack } from '../../kernel/block/stacked.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { type Finding, ok, warn } from '../../pool/sight.ts';

const check = 'devices inside volumes';
const remedy =
  "End them (vgchange --activate n GROUP, mdadm --stop), and keep LVM and mdadm of the node from volumes: global_filter or a devices file in lvm.conf, 'AUTO -all' in mdadm.conf (docs/lvm.md).";

/** Warns if programs of the node use volume groups or arrays that tenants have made inside raw block volumes. */
export async function checkNested(queue: DiskQueue): Promise<Finding> {
  const nested = nestedIn(await listStacks(queue));
  if (nested.length === 0) return ok(check, 'none');
  return warn(check, `this node uses volume groups or arrays inside of volumes: ${nested.join(', ')}`, remedy);
}

/** Devices that are built on volumes and are no volumes. */
export function nestedIn(stacks: readonly Stack[]): string[] {
  const byName = new Map(stacks.map((stack) => [stack.kernelName, stack]));
  return stacks.filter(isOurs).flatMap((below) =>
    below.holders.flatMap((holder) => {
      const above = byName.get(holder);
      if (above !== undefined && isOurs(above)) return [];
      return [`${shown(holder, above)} on ${shown(below.kernelName, below)}`];
    }),
  );
}

const volume = '(vol|snap)-[a-z2-7]{26}';
const ourMapper = new RegExp(`^holdfast-(disk-)?${volume}`);
/** The name in device-mapper of a logical volume: each hyphen of a name twice. */
const ourLogicalVolume = new RegExp(`-${volume.replace('-', '--')}`);
const ourImage = new RegExp(`/${volume}/`);

/** A volume's device, or a part of it. */
function isOurs({ backingFile = '', name = '' }: Stack): boolean {
  return ourMapper.test(name) || ourLogicalVolume.test(name) || ourImage.test(backingFile);
}

function shown(kernelName: string, stack: Stack | undefined): string {
  return stack?.name === undefined ? `/dev/${kernelName}` : `/dev/${kernelName} (${stack.name})`;
}
