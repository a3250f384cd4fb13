import { ReportReader, type ReportRow } from '../../../src/pool/kinds/lvm/commands/report.ts';
import { idOfLvName } from '../../../src/pool/kinds/lvm/names.ts';
import { readDocument, stateOf } from '../../../src/pool/kinds/lvm/tags.ts';
import { parseRecord, type VolumeRecord } from '../../../src/volume/record.ts';
import { eventually } from '../../support/eventually.ts';
import type { GuestNode } from '../node/guest-node.ts';
import { holds, type Sight } from '../power/facts.ts';
import { deadlineMs, list, undeletableOf } from '../power/look.ts';
import type { PowerScene } from '../power/scene.ts';

const volumeGroup = 'vg0';
/** A superblock of ext4 that is torn between sectors of 512 bytes is repaired only where there are clones (docs/operations.md). */
const atomicBytes = 4096;

/** A volume group on two disks. */
export const lvmScene = sceneOf('');
/** The same with a thin pool in it. */
export const thinScene = sceneOf('thinPool: { size: 3Gi }, ');
/** The same with volumes that are mirrored. */
export const mirrorScene: PowerScene = {
  ...lvmScene,
  users: lvmScene.users.map((user) => ({ ...user, layout: 'raid1' as const })),
};

function sceneOf(keys: string): PowerScene {
  return {
    setup: {
      config: `
expansion: node
pools:
  fast: { kind: lvm, volumeGroup: ${volumeGroup}, ${keys}sickAfter: 10m }
defaultPool: fast
`,
      pools: ['fast'],
      disks: [
        { name: 'first', sizeGiB: 2, atomicBytes },
        { name: 'second', sizeGiB: 2, atomicBytes },
      ],
      prepare: `lvm vgcreate --yes ${volumeGroup} /dev/vdb /dev/vdc`,
    },
    users: [
      { pool: 'fast', contents: ['ext4'] },
      { pool: 'fast', contents: ['ext4', 'block'] },
      { pool: 'fast', contents: ['xfs'] },
      { pool: 'fast', contents: ['block'] },
    ],
    afterBoot: 'true',
    look,
  };
}

async function look(node: GuestNode): Promise<Sight> {
  const { snapshotIds, volumeIds, volumes } = await list(node);
  let records: readonly VolumeRecord[] = [];
  await eventually(async () => {
    const lvs = await logicalVolumes(node);
    const idsIn = (state: string) => lvs.flatMap((lv) => (lv.state === state ? [idOfLvName(lv.name)] : [])).sort();
    const [inVolumes, inSnapshots] = [idsIn('volume'), idsIn('snapshot')];
    holds(`${inVolumes}` === `${volumeIds}`, `the group has ${inVolumes}, but ListVolumes ${volumeIds}`);
    holds(`${inSnapshots}` === `${snapshotIds}`, `the group has ${inSnapshots}, but ListSnapshots ${snapshotIds}`);
    const half = lvs.filter(({ state = 'none' }) => !['pool', 'thin', 'volume', 'snapshot'].includes(state));
    holds(half.length === 0, `the group has something half done in it: ${half.map(({ name }) => name)}`);
    records = lvs.flatMap(({ name, state, tags }) =>
      state === 'volume' ? [parseRecord(readDocument('record', tags) ?? '', `in the tags of ${name}`)] : [],
    );
  }, deadlineMs);
  return { volumes, snapshots: new Set(snapshotIds), undeletable: undeletableOf(records) };
}

async function logicalVolumes(node: GuestNode) {
  const text = await node.vm.run(`lvm lvs --reportformat json -o lv_name,lv_tags ${volumeGroup}`);
  const rows: ReportRow[] = [];
  new ReportReader((section, row) => section === 'lv' && rows.push(row)).read(text);
  return rows.map(({ lv_name: name = '', lv_tags = '' }) => {
    const tags = lv_tags.split(',');
    return { name, tags, state: stateOf(tags) };
  });
}
