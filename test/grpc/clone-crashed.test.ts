import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readFileSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { fromSnapshot, fromVolume, makeSnapshot, mebibyte, mount, TestDriver } from './controller-driver.ts';
import { workload, write } from './workload.ts';

const capacity_range = { required_bytes: 320n * mebibyte };

/** A volume whose image is as a power cut leaves it: with files that were fsynced, and no filesystem unmounted. */
async function crashedVolume(driver: TestDriver, fsType: string, files: ReadonlyMap<string, Buffer>): Promise<string> {
  let id = '';
  let image = '';
  {
    await using source = await workload(driver, 'source', mount(fsType), { capacity_range });
    id = source.id;
    execFileSync('sync', ['--file-system', source.path]);
    for (const [name, data] of files) write(join(source.path, name), data);
    image = driver.scratch.join('data/pools/main/volumes', id, 'data');
    execFileSync('cp', ['--reflink=always', image, `${image}.cut`]);
  }
  renameSync(`${image}.cut`, image);
  return id;
}

describe('a volume at rest since a power cut', () => {
  for (const fsType of ['ext4', 'xfs', 'btrfs']) {
    test(`CV25 CV27 CS13 ${fsType}: what was fsynced is in its clones and snapshots, also while it is mounted again`, async () => {
      await using driver = await TestDriver.start({ locations: 'file' });
      const files = new Map(['a', 'b'].map((name) => [name, randomBytes(100_000)]));
      const id = await crashedVolume(driver, fsType, files);
      const assertWhole = (path: string) => {
        for (const [name, data] of files) assert.ok(readFileSync(join(path, name)).equals(data), `${path}/${name}`);
      };
      const snapshot = await makeSnapshot(driver, id, 's');
      const capability = mount(fsType);
      const made = (name: string, volume_content_source: ReturnType<typeof fromVolume>) =>
        workload(driver, name, capability, { capacity_range, volume_content_source });
      {
        await using clone = await made('clone', fromVolume(id));
        assertWhole(clone.path);
      }
      // Itself, of the same identity as the snapshot.
      await using source = await workload(driver, 'source', capability, { capacity_range });
      assert.equal(source.id, id);
      assertWhole(source.path);
      await using first = await made('first', fromSnapshot(snapshot));
      await using second = await made('second', fromSnapshot(snapshot));
      for (const { path } of [first, second]) {
        assertWhole(path);
        write(join(path, 'more'), randomBytes(4096));
      }
    });
  }
});
