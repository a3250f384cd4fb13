import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, test } from 'node:test';
import { readMountTable } from '../../../src/kernel/mount/mount-table.ts';
import { PoolHeld } from '../../../src/pool/location/lock.ts';
import { FailedPrecondition, InvalidArgument, NotFound, Unavailable } from '../../../src/volume/errors.ts';
import { specsOf } from '../../contract/pool-contract.ts';
import { openTestNfs, testExport } from '../../support/nfs-pool.ts';
import { Scratch } from '../../support/scratch.ts';
import { contextOf, mountOnNode, queue, volumeWith } from './mounted.ts';

const specOf = specsOf({ type: 'directory' });
const { host: server, share } = testExport;

/** The export as root of the server's machine sees it. */
const onServer = `/srv/files${share}`;

/** The promises of pools on NFS beyond the contract of pools. */
export function describeNfs(): void {
  describe('pool on NFS', () => {
    test('a volume is mounted by what its context says, by any node, and its size is the server’s affair', async () => {
      using scratch = new Scratch('nfs');
      const pool = await openTestNfs(scratch);
      const record = await pool.create(specOf('one'));
      const volume = volumeWith(contextOf(pool, record), record.id);
      const unmount = await mountOnNode(volume, scratch.join('a'));
      writeFileSync(scratch.join('a', 'file'), 'written');
      const other = await mountOnNode(volume, scratch.join('b'), [['softerr']]);
      assert.equal(readFileSync(scratch.join('b', 'file'), 'utf8'), 'written');
      await unmount();
      await other();
      await pool.remove(record.id);
      await pool.close();
    });

    test('it is mounted with NFS 4.2, or with 4.1 where that is asked for', async () => {
      using scratch = new Scratch('nfs');
      for (const [context, version] of [
        [{}, 'vers=4.2'],
        [{ mountOptions: 'nfsvers=4.1' }, 'vers=4.1'],
      ] as const) {
        const unmount = await mountOnNode(volumeWith({ server, share, ...context }), scratch.join('m'));
        const mount = (await readMountTable(queue)).find(({ target }) => target === scratch.join('m'));
        assert.equal(mount?.fsType, 'nfs4');
        assert.ok(mount.superOptions.includes(version), `${mount.superOptions}`);
        await unmount();
      }
    });

    test('no link leads out of an export, wherever it lies on the way', async () => {
      using scratch = new Scratch('nfs');
      const directory = join(onServer, basename(scratch.path));
      mkdirSync(join(directory, 'real'), { recursive: true });
      symlinkSync('/outside', join(directory, 'absolute'));
      symlinkSync('../../outside', join(directory, 'relative'));
      symlinkSync('real', join(directory, 'inside'));
      writeFileSync(join(directory, 'file'), '');
      const at = (subDir: string) =>
        mountOnNode(
          volumeWith({ server, share, subDir: `${basename(scratch.path)}/${subDir}` }),
          scratch.join('mounted'),
        );
      for (const name of ['absolute', 'relative', 'inside', 'relative/below', 'file']) {
        await assert.rejects(at(name), FailedPrecondition, name);
      }
      await assert.rejects(at('missing'), NotFound);
      await (await at('real'))();
    });

    test('a directory that a person named has the mode that is asked for', async () => {
      using scratch = new Scratch('nfs');
      const subDir = basename(scratch.path);
      mkdirSync(join(onServer, subDir));
      const unmount = await mountOnNode(
        volumeWith({ server, share, subDir, mountPermissions: '0707' }),
        scratch.join('m'),
      );
      assert.equal(execFileSync('stat', ['-c', '%a', join(onServer, subDir)], { encoding: 'utf8' }).trim(), '707');
      await unmount();
    });

    test('what is wrong is said in words, in seconds, and options are not repeated', async () => {
      using scratch = new Scratch('nfs');
      const attempt = (context: Record<string, string>, flags: readonly (readonly [string])[] = []) =>
        mountOnNode(volumeWith({ server, share, ...context }), scratch.join('mounted'), flags);
      await assert.rejects(attempt({ share: '/none' }), (error: Error) => {
        assert.ok(error instanceof FailedPrecondition);
        assert.match(error.message, /^volume by-hand: NFS server 10\.77\.0\.1 has no directory \/none for this node/);
        return true;
      });
      await assert.rejects(attempt({ mountOptions: 'port=9' }), (error: Error) => {
        assert.ok(error instanceof Unavailable);
        assert.match(error.message, /cannot be reached at port 9 \(ECONNREFUSED\)/);
        return true;
      });
      await assert.rejects(attempt({}, [['xyzzy']]), (error: Error) => {
        assert.ok(error instanceof InvalidArgument);
        assert.doesNotMatch(error.message, /xyzzy/);
        return true;
      });
    });

    test('CV10: the names that a class gives are links to volumes, and go with them', async () => {
      using scratch = new Scratch('nfs');
      const pool = await openTestNfs(scratch);
      const names = join(onServer, basename(scratch.path), 'names');
      const parameters = { subDir: 'shop/data', mountPermissions: '0750' };
      const record = await pool.create(specOf('named', { parameters }));
      const other = specOf('other', { parameters });
      await assert.rejects(pool.create(other), (error: Error) => {
        assert.ok(error instanceof FailedPrecondition);
        assert.match(error.message, new RegExp(`shop/data is the name of volume ${record.id}`));
        return true;
      });
      const unmount = await mountOnNode(volumeWith(contextOf(pool, record), record.id), scratch.join('m'));
      writeFileSync(scratch.join('m', 'file'), 'written');
      assert.equal(statSync(scratch.join('m')).mode & 0o777, 0o750);
      await unmount();
      assert.equal(readFileSync(join(names, 'shop', 'data', 'file'), 'utf8'), 'written');
      await pool.remove(record.id);
      await pool.create(other);
      assert.deepEqual(readdirSync(join(names, 'shop', 'data')), []);
      await pool.purge();
      assert.deepEqual(readdirSync(join(names, 'shop')), ['data']);
      await pool.remove(other.id);
      await pool.purge();
      assert.deepEqual(readdirSync(names), []);
      await pool.close();
    });

    test('NFS 3 is mounted where it is asked for, and with locks only while rpc.statd runs', async () => {
      using scratch = new Scratch('nfs');
      // The server that has it, by the path that it has there: NFS 4 has a root of exports.
      const third = { server: '10.79.0.1', share: onServer, mountOptions: 'nfsvers=3' };
      const mounted = (mountOptions: string) =>
        mountOnNode(volumeWith({ ...third, mountOptions }, 'third'), scratch.join('m'));
      await assert.rejects(mounted('nfsvers=3'), (error: Error) => {
        assert.ok(error instanceof FailedPrecondition);
        assert.match(error.message, /^volume third: NFS 3 makes locks only while rpc\.statd runs on the node/);
        return true;
      });
      const flock = () => execFileSync('flock', ['--nonblock', scratch.join('m', 'third'), 'true']);
      const unmount = await mounted('nfsvers=3,nolock');
      const mount = (await readMountTable(queue)).find(({ target }) => target === scratch.join('m'));
      assert.equal(mount?.fsType, 'nfs');
      assert.ok(mount.superOptions.includes('vers=3'));
      writeFileSync(scratch.join('m', 'third'), 'written');
      flock();
      await unmount();
      assert.equal(readFileSync(join(onServer, 'third'), 'utf8'), 'written');
      execFileSync('sh', ['-c', process.env['HOLDFAST_TEST_STATD'] ?? assert.fail('no command')]);
      const withLocks = await mounted('nfsvers=3');
      flock();
      await withLocks();
      // The other one has NFS 4 alone.
      await assert.rejects(
        mountOnNode(volumeWith({ server, share, mountOptions: 'nfsvers=3' }, 'third'), scratch.join('m')),
        /does not serve NFS 3|cannot be mounted/,
      );
    });

    test('a second driver is kept out, and told who has the pool', async () => {
      using scratch = new Scratch('nfs');
      const pool = await openTestNfs(scratch);
      await assert.rejects(openTestNfs(scratch, { dataDirectory: scratch.join('other') }), (error: Error) => {
        assert.ok(error instanceof PoolHeld);
        assert.match(error.message, /is held by the driver on .* since /);
        return true;
      });
      await pool.close();
      await (await openTestNfs(scratch, { dataDirectory: scratch.join('other') })).close();
    });

    for (const [onDelete, kept] of [
      ['archive', 'archived'],
      ['retain', 'retained'],
    ] as const) {
      test(`DV05: ${onDelete} keeps what was deleted, under a name that people find`, async () => {
        using scratch = new Scratch('nfs');
        const pool = await openTestNfs(scratch, { onDelete });
        const parameters = { 'csi.storage.k8s.io/pvc/namespace': 'shop', 'csi.storage.k8s.io/pvc/name': 'data-0' };
        const { id } = await pool.create(specOf('kept', { parameters }));
        const root = join(onServer, basename(scratch.path));
        writeFileSync(join(root, 'volumes', id, 'data', 'file'), 'precious');
        await pool.remove(id);
        await pool.purge();
        const [name = '', ...more] = readdirSync(join(root, kept));
        assert.deepEqual(more, []);
        assert.ok(name.startsWith(`shop-data-0.${id}.`), name);
        assert.equal(readFileSync(join(root, kept, name, 'data', 'file'), 'utf8'), 'precious');
        assert.ok(!existsSync(join(root, 'volumes', id)));
        assert.deepEqual(readdirSync(join(root, 'trash')), []);
        await pool.close();
      });
    }
  });
}
