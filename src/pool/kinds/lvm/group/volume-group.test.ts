import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { DeviceMapper } from '../../../../kernel/block/device-mapper.ts';
import { FailedPrecondition } from '../../../../volume/errors.ts';
import { groupIdFor, memberIdFor, volumeIdFor } from '../../../../volume/id.ts';
import { defaultLayout } from '../../../../volume/layout.ts';
import type { GroupRecord } from '../../../../volume/snapshot-record.ts';
import type { Lvm, Report } from '../commands/lvm.ts';
import { poolLvName } from '../names.ts';
import { LvmProvisioner } from '../provisioner.ts';
import { TagStore } from '../record-store.ts';
import { LvmSpace } from '../space.ts';
import { groupStateOf } from './group-state.ts';
import { VolumeGroup } from './volume-group.ts';

const volumeId = volumeIdFor('node', 'pool', 'a');
const volumeName = `${volumeId}.00c0ffee`;

/** LVM, as far as a group's text goes: it keeps tags, and nothing lies on a disk. */
class TextOfLvm {
  uuid = 'aaaaaa-own';
  layout = 'linear';
  isDiskMissing = false;
  readonly lvs = new Map<string, Set<string>>([
    [poolLvName, new Set(['holdfast.pool'])],
    [volumeName, new Set(['holdfast.volume'])],
  ]);
  readonly asLvm: Lvm;

  constructor() {
    const known: Partial<Lvm> = {
      report: async () => this.#report(),
      change: async (args) => this.#change(args),
      flush: async () => undefined,
      lookOnlyAt: () => undefined,
    };
    this.asLvm = known as Lvm;
  }

  /** Another moment passes before it is done. */
  async #change(args: readonly string[]): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
    const tags = this.lvs.get(args.at(-1)?.split('/')[1] ?? '') ?? assert.fail(args.join(' '));
    args.forEach((arg, index) => {
      if (arg === '--addtag') tags.add(args[index + 1] ?? '');
      if (arg === '--deltag') tags.delete(args[index + 1] ?? '');
    });
  }

  #report(): Report {
    const missing = this.isDiskMissing;
    return {
      isDifferent: false,
      copies: [],
      vg: [
        {
          ...{ vg_name: 'fast', vg_uuid: this.uuid, vg_attr: 'wz--n-', vg_size: '1073741824', vg_tags: '' },
          ...{
            vg_extent_size: '4194304',
            vg_missing_pv_count: missing ? '1' : '0',
            vg_mda_size: '1044480',
            vg_mda_free: '500000',
          },
        },
      ],
      pv: [
        {
          ...{
            vg_name: 'fast',
            pv_uuid: 'p',
            pv_name: missing ? '[unknown]' : '/dev/sda',
            pv_size: '1073741824',
            pv_free: '900000000',
          },
          ...{
            pv_attr: missing ? 'a-m' : 'a--',
            pv_missing: '',
            pv_major: missing ? '-1' : '8',
            pv_minor: missing ? '-1' : '0',
          },
        },
      ],
      lv: Array.from(this.lvs, ([lv_name, tags]) => ({
        ...{ vg_name: 'fast', lv_name, lv_uuid: 'l', lv_size: '67108864', lv_attr: '-wi-------', sync_percent: '' },
        lv_layout: lv_name === volumeName ? this.layout : 'linear',
        lv_tags: [...tags].join(','),
      })),
      seg: [...this.lvs.keys()].map((lv_name) => ({ vg_name: 'fast', lv_name, stripes: '1', thin_id: '' })),
    };
  }

  async open(): Promise<VolumeGroup> {
    const state = groupStateOf(await this.asLvm.report('fast'), 'fast') ?? assert.fail();
    return new VolumeGroup('pool', this.asLvm, { find: () => undefined } as unknown as DeviceMapper, state);
  }
}

function groupRecord(name: string): GroupRecord {
  const id = groupIdFor('node', name);
  const memberIds = [memberIdFor(id, volumeId)];
  return { id, name, parameters: {}, memberIds, createdAt: new Date(0).toISOString() };
}

describe('the volume group of a pool', () => {
  test('lvm 9: records of two groups of snapshots that are written at a time are both there, and both go', async () => {
    const lvm = new TextOfLvm();
    const group = await lvm.open();
    const store = new TagStore(group);
    const records = [groupRecord('a'), groupRecord('b')];
    await Promise.all(records.map((record) => store.writeGroup(record)));
    assert.equal((await store.read()).groups.records.length, 2);
    await Promise.all(records.map(({ id }) => store.removeGroup(id)));
    assert.deepEqual([...(lvm.lvs.get(poolLvName) ?? [])], ['holdfast.pool']);
  });

  test('lvm 4: another group of its name is not taken for it', async () => {
    const lvm = new TextOfLvm();
    const group = await lvm.open();
    await group.refresh();
    lvm.uuid = 'bbbbbb-other';
    await assert.rejects(group.refresh(), (error) => {
      assert.ok(error instanceof FailedPrecondition);
      assert.match(error.message, /is not the one that the pool was opened in/);
      return true;
    });
    assert.equal(group.state.uuid, 'aaaaaa-own');
  });

  test('lvm 4: a volume that LVM does not name is gone only if the group is whole', async () => {
    const lvm = new TextOfLvm();
    lvm.lvs.delete(volumeName);
    const group = await lvm.open();
    const provisioner = new LvmProvisioner({ group } as unknown as ConstructorParameters<typeof LvmProvisioner>[0]);
    assert.deepEqual(await provisioner.removeVolume(volumeId, undefined), { ref: volumeId, isKept: false });
    lvm.isDiskMissing = true;
    await assert.rejects(provisioner.removeVolume(volumeId, undefined), /a disk of volume group fast is missing/);
    lvm.isDiskMissing = false;
    lvm.uuid = 'bbbbbb-other';
    await assert.rejects(provisioner.removeVolume(volumeId, undefined), FailedPrecondition);
  });

  test('lvm 8: a copy of a mirror takes its size once', async () => {
    const lvm = new TextOfLvm();
    lvm.layout = 'raid,raid1';
    const space = new LvmSpace(await lvm.open());
    assert.equal(await space.allocatedBytes(volumeId), 2n * ((64n << 20n) + (4n << 20n)));
    assert.equal(space.layouts?.neededBytes(64n << 20n, defaultLayout), 64n << 20n);
  });
});
