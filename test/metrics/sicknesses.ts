import assert from 'node:assert/strict';
import { copyFileSync, truncateSync, writeFileSync } from 'node:fs';
import type { DriverClient } from '../support/client.ts';
import type { DriverProcess } from '../support/driver.ts';
import type { Exposition } from '../support/exposition.ts';
import { inject } from '../support/injection.ts';
import { mountWith, TestVolume } from '../support/life.ts';
import type { Scratch } from '../support/scratch.ts';
import { SmallDisk } from '../support/small-disk.ts';
import type { Firing } from './timeline.ts';

/** What can happen to a pool, and the alerts that have to follow. */
export interface Sickness {
  readonly disk: SmallDisk;
  /** Of its pool, for the configuration. */
  readonly settings: string;
  readonly firing: readonly Firing[];
  /** While all is well. */
  prepare(client: DriverClient): Promise<void>;
  /** While no driver runs. */
  strike(): void;
  /** Under a driver at work. */
  begin(client: DriverClient, driver: DriverProcess): Promise<void>;
  /** Throws as long as the driver's figures do not show it. */
  assertSeen(seen: Exposition): void;
  /** Once more between two scrapes. */
  goOn(client: DriverClient): Promise<void>;
  /** The disk is as it was. Under a driver at work, too. */
  mend(): Promise<void> | void;
}

const mebibyte = 1n << 20n;

/** A pool for each, by its name. */
export function sicknesses(scratch: Scratch): Readonly<Record<string, Sickness>> {
  return {
    well: sickness(scratch, 'well', {}),
    // What others have written is not promised: what is left is the pool's.
    filling: fullDisk(scratch, 'filling', 0.15, ['HoldfastPoolFilling']),
    nearly: fullDisk(scratch, 'nearly', 0.003, [
      'HoldfastPoolNearlyFull',
      'HoldfastPoolFilling',
      'HoldfastPoolAlmostProvisioned',
    ]),
    claimed: claimedDisk(scratch, 'claimed'),
    promised: promisedPool(scratch, 'promised'),
    damaged: damagedRecord(scratch, 'damaged'),
    missing: missingDisk(scratch, 'missing'),
    readonly: readOnlyDisk(scratch, 'readonly'),
    truncated: truncatedImage(scratch, 'truncated'),
    slow: slowDisk(scratch, 'slow'),
    // The last, as a frozen disk is there no longer than it must be.
    hung: hungDisk(scratch, 'hung'),
  };
}

function sickness(scratch: Scratch, name: string, own: Partial<Sickness>): Sickness {
  return {
    disk: own.disk ?? new SmallDisk(scratch, name),
    settings: '',
    firing: [],
    prepare: async (client) => void (await createIn(client, name, `first-in-${name}`)),
    strike: () => undefined,
    begin: () => Promise.resolve(),
    assertSeen: () => undefined,
    goOn: () => Promise.resolve(),
    mend: () => undefined,
    ...own,
  };
}

/** Others fill the disk, until this share of it is free. */
function fullDisk(scratch: Scratch, name: string, share: number, alerts: readonly string[]): Sickness {
  const disk = new SmallDisk(scratch, name);
  return sickness(scratch, name, {
    disk,
    firing: alerts.map((alertname) => ({ alertname, pool: name })),
    begin: async () => disk.leaveFree(share),
    mend: () => disk.giveBack(),
  });
}

/** The same, and a volume may yet claim more than is left. */
function claimedDisk(scratch: Scratch, name: string): Sickness {
  const disk = new SmallDisk(scratch, name);
  return sickness(scratch, name, {
    disk,
    firing: ['HoldfastPoolAlmostFull', 'HoldfastPoolFilling', 'HoldfastPoolAlmostProvisioned'].map((alertname) => ({
      alertname,
      pool: name,
    })),
    prepare: async (client) => void (await createIn(client, name, 'large', 500n * mebibyte)),
    begin: async () => disk.leaveFree(0.08),
    mend: () => disk.giveBack(),
  });
}

/** A disk with almost nothing on it, all of which is promised. */
function promisedPool(scratch: Scratch, name: string): Sickness {
  let id = '';
  let mend = async () => {};
  return sickness(scratch, name, {
    firing: [{ alertname: 'HoldfastPoolAlmostProvisioned', pool: name }],
    async begin(client) {
      const { available_capacity } = await client.controller.GetCapacity({ parameters: { pool: name } });
      id = await createIn(client, name, 'huge', available_capacity - 32n * mebibyte);
      mend = async () => void (await client.controller.DeleteVolume({ volume_id: id }));
    },
    mend: () => mend(),
  });
}

function damagedRecord(scratch: Scratch, name: string): Sickness {
  const disk = new SmallDisk(scratch, name);
  const backup = scratch.join('record');
  let record = '';
  return sickness(scratch, name, {
    disk,
    firing: [{ alertname: 'HoldfastDamagedRecords', pool: name }],
    async prepare(client) {
      record = `${disk.pool}/volumes/${await createIn(client, name, 'damaged')}/volume.json`;
    },
    strike() {
      copyFileSync(record, backup);
      writeFileSync(record, '{ "not a record');
    },
    mend: () => copyFileSync(backup, record),
  });
}

function missingDisk(scratch: Scratch, name: string): Sickness {
  const disk = new SmallDisk(scratch, name);
  return sickness(scratch, name, {
    disk,
    firing: [{ alertname: 'HoldfastPoolNotOpen', pool: name }],
    strike: () => disk.unmount(),
    mend: () => disk.mount(),
  });
}

/** As the kernel makes it after errors. The pool is in quarantine. */
function readOnlyDisk(scratch: Scratch, name: string): Sickness {
  const disk = new SmallDisk(scratch, name);
  return sickness(scratch, name, {
    disk,
    settings: ', sickAfter: 1s',
    firing: [{ alertname: 'HoldfastPoolNotOpen', pool: name }],
    async begin(client) {
      disk.remount('ro');
      await assert.rejects(createIn(client, name, 'refused'));
    },
    assertSeen: (seen) => assert.equal(seen.value('holdfast_pool_state', { pool: name, state: 'quarantined' }), 1),
    mend: () => disk.remount('rw'),
  });
}

/** Data is missing, which whoever asks for the volume is told, again and again as the kubelet asks. */
function truncatedImage(scratch: Scratch, name: string): Sickness {
  const disk = new SmallDisk(scratch, name);
  const volume = new TestVolume(scratch, 'truncated');
  let id = '';
  return sickness(scratch, name, {
    disk,
    firing: [{ alertname: 'HoldfastCallsFail', rpc: 'NodeStageVolume', code: 'DATA_LOSS' }],
    async prepare(client) {
      id = await volume.create(client, { pool: name });
    },
    begin: async () => truncateSync(`${disk.pool}/volumes/${id}/data`, 1 << 20),
    goOn: (client) => assert.rejects(volume.stage(client, id), { code: 'DATA_LOSS' }),
  });
}

/** A disk that takes a second for what is asked of it, while a volume in use is snapshot. */
function slowDisk(scratch: Scratch, name: string): Sickness {
  const volume = new TestVolume(scratch, 'snapped');
  return sickness(scratch, name, {
    firing: [{ alertname: 'HoldfastLongFreeze', pool: name }],
    async begin(client, driver) {
      const id = await volume.bringUpIn(client, name);
      {
        await using _slow = await inject(driver.pid, 'ioctl:delay_enter=1200ms');
        await client.controller.CreateSnapshot({ source_volume_id: id, name: 's' });
      }
      await volume.unpublish(client, id);
      await volume.unstage(client, id);
    },
  });
}

/** Calls wait for it in vain. The pool's `sickAfter` is so long that it stays open meanwhile. */
function hungDisk(scratch: Scratch, name: string): Sickness {
  const disk = new SmallDisk(scratch, name);
  let mend = () => Promise.resolve();
  return sickness(scratch, name, {
    disk,
    settings: ', sickAfter: 1h',
    firing: [
      { alertname: 'HoldfastPoolSilent', pool: name },
      { alertname: 'HoldfastDiskSlow', queue: `pool ${name}` },
      { alertname: 'HoldfastCallHangs' },
    ],
    async begin(client) {
      disk.freeze();
      const calls = Promise.all(Array.from({ length: 8 }, (_, index) => createIn(client, name, `waits-${index}`)));
      mend = async () => {
        disk.thaw();
        await calls;
      };
    },
    assertSeen(seen) {
      assert.ok(seen.value('holdfast_disk_queue_waiting', { queue: `pool ${name}` }) > 0);
      assert.equal(seen.value('holdfast_pool_measured', { pool: name }), 0);
    },
    mend: () => mend(),
  });
}

async function createIn(
  client: DriverClient,
  pool: string,
  name: string,
  required_bytes = 16n * mebibyte,
): Promise<string> {
  const { volume } = await client.controller.CreateVolume({
    name,
    capacity_range: { required_bytes },
    volume_capabilities: [mountWith('ext4')],
    parameters: { pool },
  });
  return volume?.volume_id ?? assert.fail(`${name} was not made`);
}
