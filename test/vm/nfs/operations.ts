import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import type { Pool } from '../../../src/pool/pool.ts';
import type { SnapshotId, VolumeId } from '../../../src/volume/id.ts';
import { volumeSpec } from '../../support/image-pool.ts';
import { testExport } from '../../support/nfs-pool.ts';
import { idOf, type Operation, operationsOn, snapshotOf } from '../lvm/operations.ts';

const directory = { type: 'directory' } as const;
/** Large enough that a copy is not whole at once. */
const large = Buffer.alloc(1 << 20, 'large');

/** The pool of a directory, as root of the server's machine sees it. */
export function onServer(path: string, ...names: string[]): string {
  return join('/srv/files', testExport.share, basename(path), ...names);
}

function write(data: string): void {
  mkdirSync(join(data, 'below'), { recursive: true });
  writeFileSync(join(data, 'file'), 'precious', { mode: 0o640 });
  writeFileSync(join(data, 'below', 'large'), large);
}

export function isWhole(data: string): void {
  assert.deepEqual(readdirSync(data).sort(), ['below', 'file']);
  assert.equal(readFileSync(join(data, 'file'), 'utf8'), 'precious');
  assert.equal(statSync(join(data, 'file')).mode & 0o777, 0o640);
  assert.ok(readFileSync(join(data, 'below', 'large')).equals(large));
}

/** Names in a directory of the pool that nobody keeps. */
export function unkept(path: string, name: 'tmp' | 'trash'): string[] {
  const at = onServer(path, name);
  return readdirSync(at).filter((each) => !existsSync(join(at, each, 'deleted.json')));
}

/** @param path of the pool's scratch directory */
export function nfsOperations(path: string): Readonly<Record<string, Operation>> {
  const volumeData = (id: VolumeId) => onServer(path, 'volumes', id, 'data');
  const snapshotData = (id: SnapshotId) => onServer(path, 'snapshots', id, 'data');
  const { create, grow, purge, remove, restored, snapshot, undelete } = operationsOn(directory);
  const withData = (operation: Operation, check: (name: string) => void): Operation => ({
    ...operation,
    prepare: async (pool, name) => {
      // The source of a snapshot must have its data before that is taken.
      if (operation === restored) {
        await snapshot.prepare(pool, name);
        write(volumeData(idOf(name)));
      }
      await operation.prepare(pool, name);
      if (operation !== restored && (await pool.find(idOf(name))) !== undefined) write(volumeData(idOf(name)));
    },
    check: async (pool, name) => {
      await operation.check(pool, name);
      check(name);
    },
  });
  const named: Operation = {
    ...create,
    run: async (pool, name) => {
      if ((await pool.find(idOf(name))) !== undefined) return;
      await pool.create(volumeSpec(name, { content: directory, parameters: { subDir: `shop/${name}` } }));
    },
    check: async (pool, name) => {
      await create.check(pool, name);
      // Through the link.
      assert.ok(statSync(onServer(path, 'names', 'shop', name)).isDirectory());
    },
  };
  const archive: Operation = {
    prepare: async (pool, name) => {
      await pool.create(volumeSpec(name, { content: directory, parameters: { onDelete: 'archive' } }));
      write(volumeData(idOf(name)));
    },
    run: (pool, name) => pool.remove(idOf(name)),
    async check(pool, name) {
      assert.equal(await pool.find(idOf(name)), undefined);
      await pool.purge();
      const archived = onServer(path, 'archived');
      const [found = assert.fail('it is not archived'), ...more] = readdirSync(archived).filter((each) =>
        each.includes(idOf(name)),
      );
      assert.deepEqual(more, []);
      isWhole(join(archived, found, 'data'));
    },
  };
  const copied = (pool: Pool, name: string) => pool.find(idOf(`${name}-copy`));
  const clone: Operation = {
    prepare: async (pool, name) => {
      await create.run(pool, name);
      write(volumeData(idOf(name)));
    },
    async run(pool, name) {
      if ((await copied(pool, name)) !== undefined) return;
      const spec = volumeSpec(`${name}-copy`, { content: directory });
      await pool.create(spec, { type: 'volume', id: idOf(name) });
    },
    async check(pool, name) {
      assert.notEqual(await copied(pool, name), undefined);
      isWhole(volumeData(idOf(`${name}-copy`)));
      isWhole(volumeData(idOf(name)));
    },
  };
  return {
    ...{ create, named, remove, purge, archive, clone },
    undelete: withData(undelete, (name) => isWhole(volumeData(idOf(name)))),
    grow: withData(grow, (name) => isWhole(volumeData(idOf(name)))),
    snapshot: withData(snapshot, (name) => isWhole(snapshotData(snapshotOf(name)))),
    restored: withData(restored, (name) => isWhole(volumeData(idOf(`${name}-restored`)))),
  };
}
