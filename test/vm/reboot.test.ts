import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { checksumOf, contentOf } from './machine/content.ts';
import type { GuestNode } from './node/guest-node.ts';
import type { GuestVolume } from './node/guest-volume.ts';
import { newVolume, usedVolume } from './node/life.ts';
import { startNode } from './node/start-node.ts';
import { look } from './power/look.ts';

const config = 'pools: { default: { device: /dev/vdb, sickAfter: 10m } }\n';
const disks = [{ name: 'pool', sizeGiB: 4 }];
const file = { seed: 1, sizeBytes: 300_000 };
const checksum = checksumOf(contentOf(file.seed, file.sizeBytes));
const mebibyte = 1n << 20n;

describe('T06: reboots', () => {
  test('volumes are staged anew and whole; what was frozen or half done is gone', async (t) => {
    await using started = await startNode(t, { config, pools: ['default'], disks });
    const { node } = started;
    const pools = [{ name: 'default', root: `${node.dataDirectory}/pools/default` }];
    const volumes = [await usedVolume(node, 'default'), await usedVolume(node, 'default')];
    for (const { targetPath } of volumes) await node.vm.task('write', { ...file, path: `${targetPath}/file` });

    // With CAP_SYS_RESOURCE, which ext4 asks for. Other tests do without it: not every container has it.
    await grow(node, volumes[0]);

    await node.kill();
    await node.vm.reboot();
    await node.mount();
    await node.start();
    await comeBack(node, volumes, 'after an orderly reboot');

    // A snapshot dies in its cut, with the volume frozen and a draft in tmp/; then nobody shuts anything down.
    await node.kill();
    await node.start({ when: 'after', step: 'snapshot/take' });
    await assert.rejects(volumes[0]?.snapshot('never') ?? assert.fail());
    await node.start({ when: 'before', step: 'create/commit' });
    await assert.rejects(newVolume(node, 'default').create(32n * mebibyte));
    await node.vm.reset();
    await node.mount();
    await node.start();
    const { snapshots, volumes: listed } = await look(node, pools);
    assert.deepEqual([...snapshots], []);
    assert.deepEqual([...listed.keys()].sort(), volumes.map(({ id }) => id).sort());
    await comeBack(node, volumes, 'after a reset');
    for (const { targetPath } of volumes) {
      // It hangs where a filesystem is frozen.
      await node.vm.task('write', { ...file, path: `${targetPath}/another` });
    }
    await volumes[0]?.snapshot('at last');
  });
});

async function comeBack(node: GuestNode, volumes: readonly GuestVolume[], when: string): Promise<void> {
  for (const volume of volumes) {
    await volume.use();
    const path = `${volume.targetPath}/file`;
    assert.deepEqual(await node.vm.task('checksums', [{ path, sizeBytes: file.sizeBytes }]), [checksum], when);
  }
}

/** An ext4 volume that is mounted. */
async function grow(node: GuestNode, volume: GuestVolume | undefined): Promise<void> {
  assert.ok(volume !== undefined);
  const freeBytes = async () =>
    BigInt(
      await node.vm.run(
        `stat --file-system --format='%b * %S' ${volume.targetPath} | sed 's/^/echo $((/;s/$/))/' | sh`,
      ),
    );
  const before = await freeBytes();
  await volume.expand(64n * mebibyte);
  assert.ok((await freeBytes()) - before > 24n * mebibyte, 'the mounted filesystem has not grown');
}
