import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { describe, test } from 'node:test';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import type { Provisioner, RecordStore } from '../../src/pool/backend.ts';
import { Trash } from '../../src/pool/catalog/trash.ts';
import { RecordIndex } from '../../src/pool/indexes/record-index.ts';
import { SnapshotIndex } from '../../src/pool/indexes/snapshot-index.ts';
import type { TrashEntry } from '../../src/pool/indexes/trash-entry.ts';
import type { OwnLv } from '../../src/pool/kinds/lvm/group/group-state.ts';
import { LvmSpace } from '../../src/pool/kinds/lvm/space.ts';
import { SpaceLedger } from '../../src/pool/space/space-ledger.ts';
import { ResourceExhausted } from '../../src/volume/errors.ts';
import { type VolumeId, volumeIdFor } from '../../src/volume/id.ts';
import type { VolumeRecord } from '../../src/volume/record.ts';
import { openTestDirectoriesOnXfs } from '../support/directory-pool.ts';
import { volumeSpec } from '../support/image-pool.ts';
import { withMounted } from '../support/mounted-volume.ts';
import { Scratch } from '../support/scratch.ts';

const gibibyte = 1n << 30n;

/** A thick pool in a volume group of 10 GiB: 2 GiB are free, and 8 volumes of 1 GiB lie in the trash. What goes is wiped until it is told to be gone. */
class WipedPool {
  readonly lvs = new Map<string, OwnLv>();
  readonly wiped: { readonly ref: string; readonly end: () => void }[] = [];
  readonly trash: Trash;
  readonly ledger: SpaceLedger;
  /** Until then nothing is marked as going. */
  marking: Promise<void> = Promise.resolve();

  constructor() {
    const group = {
      poolName: 'test',
      state: { name: 'vg0', extentBytes: 4n << 20n, sizeBytes: 10n * gibibyte, physicalVolumes: [] },
      freeBytes: 2n * gibibyte,
      get: (name: string) => this.lvs.get(name),
      find: () => undefined,
      all: () => this.lvs.values(),
      refresh: async () => undefined,
    };
    const provisioner: Partial<Provisioner> = {
      destroysSlowly: true,
      mark: () => this.marking,
      destroy: (ref) =>
        new Promise((resolve) => {
          const end = () => {
            this.lvs.delete(ref);
            group.freeBytes += gibibyte;
            resolve();
          };
          this.wiped.push({ ref, end });
        }),
    };
    const backend = { provisioner: provisioner as Provisioner, records: {} as RecordStore };
    this.trash = new Trash({
      backend,
      queue: new DiskQueue('test', 1),
      onError: (_ref, error) => assert.fail(`${error}`),
    });
    for (let index = 0; index < 8; index++) this.#trash(index);
    this.ledger = new SpaceLedger({
      ...{ poolName: 'test', reserveBytes: 1n << 20n, overcommit: 1, trash: this.trash },
      source: new LvmSpace(group),
      index: new RecordIndex<VolumeId, VolumeRecord>('volume', { records: [], damaged: [] }),
      snapshotIndex: new SnapshotIndex({ records: [], damaged: [] }, { records: [], damaged: [] }),
      counts: async () => new Map(),
    });
  }

  /** Space for something thick. */
  hold(newBytes: bigint) {
    return this.ledger.hold({ newBytes, provisioning: 'thick' });
  }

  /** Resolves when so many are being wiped. */
  async wiping(count: number): Promise<void> {
    while (this.wiped.length < count) await turn();
  }

  #trash(index: number): void {
    const id = volumeIdFor('node', 'test', `${index}`);
    const ref = `${id}.0000000${index}`;
    const at = new Date(Date.UTC(2026, 0, 1 + index)).toISOString();
    this.lvs.set(ref, {
      ...{ name: ref, id, layout: 'linear', tags: [], state: 'trash', stripes: 1 },
      ...{ sizeBytes: gibibyte, syncPercent: '', attributes: '-wi-------' },
    });
    const entry: unknown = {
      ref,
      record: { id, sizeBytes: gibibyte, provisioning: 'thick' },
      deletedAt: at,
      purgeAt: at,
      poolAgeMs: 0,
    };
    this.trash.keep(entry as TrashEntry);
  }
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

describe('room that is made of the trash of a pool that wipes', () => {
  test('lvm 2: no more of it goes than is needed, and who needs it waits until it is free', async () => {
    const pool = new WipedPool();
    const holding = pool.hold((5n * gibibyte) / 2n);
    await pool.wiping(1);
    for (let turns = 0; turns < 100; turns++) await turn();
    assert.equal(pool.wiped.length, 1);
    assert.equal(pool.trash.entries().length, 7);
    pool.wiped[0]?.end();
    using _held = await holding;
    assert.equal(pool.trash.entries().length, 7);
  });

  test('lvm 2: what takes longer than who needs it waits is told, and a retry takes no more of it either', async (t) => {
    const pool = new WipedPool();
    t.mock.timers.enable({ apis: ['setTimeout'] });
    for (let tries = 0; tries < 2; tries++) {
      const refused = assert.rejects(pool.hold((5n * gibibyte) / 2n), (error) => {
        assert.ok(error instanceof ResourceExhausted);
        assert.match(error.message, /until deleted volumes are wiped \(1Gi\)/);
        return true;
      });
      await pool.wiping(1);
      for (let turns = 0; turns < 100; turns++) await turn();
      t.mock.timers.tick(60_000);
      await refused;
      assert.equal(pool.wiped.length, 1);
    }
    pool.wiped[0]?.end();
    using _held = await pool.hold((5n * gibibyte) / 2n);
    assert.equal(pool.trash.entries().length, 7);
  });

  test('two that need room at once take their turns: what goes for the first one is enough for both', async () => {
    const pool = new WipedPool();
    using _all = await pool.hold(2n * gibibyte - (64n << 20n));
    const marked = Promise.withResolvers<void>();
    pool.marking = marked.promise;
    const holding = [];
    for (let each = 0; each < 2; each++) {
      holding.push(pool.hold(gibibyte / 4n));
      for (let turns = 0; turns < 100; turns++) await turn();
    }
    marked.resolve();
    await pool.wiping(1);
    for (let turns = 0; turns < 100; turns++) await turn();
    assert.equal(pool.wiped.length, 1);
    pool.wiped[0]?.end();
    await Promise.all(holding);
    assert.equal(pool.trash.entries().length, 7);
  });

  test('what is more than there is takes nothing', async () => {
    const pool = new WipedPool();
    await assert.rejects(pool.hold(11n * gibibyte), ResourceExhausted);
    assert.equal(pool.wiped.length, 0);
  });
});

test('core 3: in a directory pool on XFS, which frees what is unlinked later, no more of the trash goes than is needed', async () => {
  using scratch = new Scratch('room');
  const pool = await openTestDirectoriesOnXfs(scratch, { undeleteSeconds: 86_400 });
  const spec = (name: string, sizeMebibytes: bigint) =>
    volumeSpec(name, { content: { type: 'directory' }, sizeBytes: sizeMebibytes << 20n });
  for (const name of ['a', 'b', 'c']) {
    const { id } = await pool.create(spec(name, 1100n));
    await withMounted(pool, id, scratch, (path) => execFileSync('fallocate', ['--length', '1024M', `${path}/file`]));
    await pool.remove(id);
  }
  await pool.create(spec('d', 1500n));
  assert.equal((await pool.trash()).length, 2);
  await pool.close();
});
