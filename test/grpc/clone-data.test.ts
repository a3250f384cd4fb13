import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import type * as wire from '../../src/csi/generated/types.ts';
import type { Draft } from '../../src/csi/handler.ts';
import { volumeIdFor } from '../../src/volume/id.ts';
import { isOneInstant, startCounter } from '../support/counter.ts';
import {
  block,
  fromSnapshot,
  fromVolume,
  makeSnapshot,
  mebibyte,
  mount,
  nodeId,
  TestDriver,
} from './controller-driver.ts';
import { read, type Workload, workload, write } from './workload.ts';

const sharing = { locations: 'file' } as const;
const filesystems = ['ext4', 'xfs', 'btrfs'] as const;
const size = 320n * mebibyte;
const larger = 640n * mebibyte;

const checkers = {
  ext4: ['e2fsck', '-fn'],
  xfs: ['xfs_repair', '-n'],
  btrfs: ['btrfs', 'check', '--readonly'],
} as const;

interface Kind {
  readonly capability: Draft<wire.VolumeCapability>;
  /** Where the data is, in what is published. */
  readonly file: (workload: Workload) => string;
}

const kinds: Readonly<Record<string, Kind>> = {
  ...Object.fromEntries(
    filesystems.map((fsType) => [
      fsType,
      { capability: mount(fsType), file: ({ path }: Workload) => join(path, 'file') },
    ]),
  ),
  block: { capability: block(), file: ({ path }: Workload) => path },
};

/** What the workload sees, in bytes. */
async function seenBytes(driver: TestDriver, { id, path }: Workload): Promise<bigint> {
  const { usage } = await driver.client.node.NodeGetVolumeStats({ volume_id: id, volume_path: path });
  return usage.find(({ unit }) => unit === 'BYTES')?.total ?? 0n;
}

describe('what is in a restored or cloned volume', () => {
  for (const [kind, { capability, file }] of Object.entries(kinds)) {
    test(`CV25 CV27 PB19 CS13 ${kind}: the data of the cut, in the full larger size, and each goes its own way`, async () => {
      await using driver = await TestDriver.start(sharing);
      const capacity_range = { required_bytes: size };
      await using source = await workload(driver, 'source', capability, { capacity_range });
      const original = randomBytes(1 << 20);
      write(file(source), original);
      // Everything here happens while the source is in use.
      const snapshot = await makeSnapshot(driver, source.id, 's');
      const cloneRange = { capacity_range: { required_bytes: larger } };
      await using clone = await workload(driver, 'clone', capability, {
        ...cloneRange,
        volume_content_source: fromVolume(source.id),
      });
      const changed = randomBytes(1 << 20);
      write(file(source), changed);
      await using restored = await workload(driver, 'restored', capability, {
        ...cloneRange,
        volume_content_source: fromSnapshot(snapshot),
      });
      await using equal = await workload(driver, 'equal', capability, {
        capacity_range: null,
        volume_content_source: fromSnapshot(snapshot),
      });
      for (const copy of [clone, restored, equal]) assert.ok(read(file(copy), original.length).equals(original));
      for (const copy of [clone, restored]) {
        assert.equal(copy.volume.capacity_bytes, larger);
        // XFS keeps 64 MiB for its log.
        assert.ok((await seenBytes(driver, copy)) > (larger * 8n) / 10n, 'the filesystem did not grow');
      }
      assert.equal(equal.volume.capacity_bytes, size);
      assert.ok((await seenBytes(driver, equal)) <= size);
      for (const copy of [clone, restored, equal]) write(file(copy), randomBytes(1 << 20));
      assert.ok(read(file(source), changed.length).equals(changed));
    });
  }

  test('CV25: a clone of a clone, of a volume whose snapshot and source are gone', async () => {
    await using driver = await TestDriver.start(sharing);
    const original = randomBytes(1 << 20);
    const capacity_range = { required_bytes: size };
    let last = '';
    {
      await using source = await workload(driver, 'generation 0', mount('xfs'), { capacity_range });
      write(join(source.path, 'file'), original);
      last = source.id;
    }
    for (let generation = 1; generation <= 4; generation++) {
      const from = generation % 2 === 0 ? fromVolume(last) : fromSnapshot(await makeSnapshot(driver, last, 's'));
      await using copy = await workload(driver, `generation ${generation}`, mount('xfs'), {
        capacity_range: { required_bytes: size + BigInt(generation) * 16n * mebibyte },
        volume_content_source: from,
      });
      await driver.controller.DeleteVolume({ volume_id: last });
      if (from.snapshot) await driver.controller.DeleteSnapshot({ snapshot_id: from.snapshot.snapshot_id ?? '' });
      assert.ok(read(join(copy.path, 'file'), original.length).equals(original));
      last = copy.id;
    }
  });
});

describe('a snapshot of a volume that somebody writes to without a pause', () => {
  for (const fsType of filesystems) {
    test(`CS13 ${fsType}: is consistent as after a crash, at one instant`, async () => {
      await using driver = await TestDriver.start(sharing);
      const capacity_range = { required_bytes: size };
      const snapshots: string[] = [];
      {
        await using source = await workload(driver, 'source', mount(fsType), { capacity_range });
        await using _writer = await startCounter(['a', 'b', 'c'].map((name) => join(source.path, name)));
        for (let cut = 0; cut < 5; cut++) snapshots.push(await makeSnapshot(driver, source.id, `s${cut}`));
      }
      for (const [cut, snapshot] of snapshots.entries()) {
        const volume_content_source = fromSnapshot(snapshot);
        await using restored = await workload(driver, `r${cut}`, mount(fsType), {
          capacity_range,
          volume_content_source,
        });
        const counters = ['a', 'b', 'c'].map((name) => read(join(restored.path, name), 8).readBigUInt64LE());
        assert.ok(isOneInstant(counters), `${counters}`);
      }
      // It was mounted, so its journal is replayed; now its own checker finds nothing to say.
      const [program, ...args] = checkers[fsType];
      const image = driver.scratch.join('data/pools/main/volumes', volumeIdFor(nodeId, 'main', 'r0'), 'data');
      execFileSync(program, [...args, image], { stdio: 'pipe' });
    });
  }
});
