import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { SeededRandom } from '../crash/seeded-random.ts';
import { Scratch } from '../support/scratch.ts';
import { VolatileDisk } from './disk/volatile-disk.ts';
import { checksumOf, contentOf } from './machine/content.ts';
import { bootVirtualMachine } from './machine/virtual-machine.ts';

const sizeBytes = 256 << 20;
const fileBytes = 1 << 20;
const mount = 'mkdir -p /data && mount /dev/vda /data';

/** What these show of the machine, the other tests here take for granted. */
describe('the virtual machine', () => {
  test('a power cut takes what was not flushed, and nothing else; a disk that lies is found out', async (t) => {
    using scratch = new Scratch('vm');
    using disk = new VolatileDisk(scratch, { name: 'disk', sizeBytes });
    await using vm = await bootVirtualMachine({ scratch, disks: [disk] });
    const random = new SeededRandom(1);
    assert.deepEqual(await vm.attempt('echo out; echo err >&2; exit 3'), {
      code: 3,
      signal: null,
      stdout: 'out\n',
      stderr: 'err\n',
    });
    assert.equal((await vm.attempt('sleep 100', { timeoutMs: 100 })).signal, 'SIGKILL');

    await vm.run(`mkfs.ext4 -q -J size=4 /dev/vda && ${mount}`);
    await vm.task('write', { path: '/data/synced', seed: 1, sizeBytes: fileBytes });
    await vm.task('write', { path: '/data/unsynced', seed: 2, sizeBytes: fileBytes, unsynced: true });
    await vm.cutPower(random);
    await vm.boot();
    await vm.run(mount);
    const paths = ['/data/synced', '/data/unsynced'].map((path) => ({ path, sizeBytes: fileBytes }));
    const synced = checksumOf(contentOf(1, fileBytes));
    assert.deepEqual(await vm.task('checksums', paths), [synced, null], 'after a power cut');

    await vm.task('write', { path: '/data/later', seed: 3, sizeBytes: fileBytes, unsynced: true });
    await vm.reboot();
    await vm.run(mount);
    assert.equal(await vm.task('sizeBytes', '/data/later'), fileBytes, 'after an orderly reboot');

    disk.ignoresFlushes = true;
    await vm.task('write', { path: '/data/lost', seed: 4, sizeBytes: fileBytes });
    await vm.cutPower(random);
    await vm.boot();
    // Whether the filesystem survives such a disk is all the same: it cannot be mounted (mount(8), 32), or lacks the file.
    const { code, stderr } = await vm.attempt(mount);
    assert.ok(code === 0 || code === 32, stderr);
    const lost = code === 32 ? [null] : await vm.task('checksums', [{ path: '/data/lost', sizeBytes: fileBytes }]);
    assert.notDeepEqual(
      lost,
      [checksumOf(contentOf(4, fileBytes))],
      'a disk that ignores flushes lost nothing: these tests could never fail',
    );
    t.diagnostic(`${vm.boots} boots`);
  });
});
