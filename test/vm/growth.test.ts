import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { checksumOf, contentOf } from './machine/content.ts';
import { newVolume } from './node/life.ts';
import { startNode } from './node/start-node.ts';
import { look } from './power/look.ts';

const config = 'pools: { default: { device: /dev/vdb, sickAfter: 10m } }\n';
const disks = [{ name: 'pool', sizeGiB: 4 }];
const mebibyte = 1n << 20n;
const file = { seed: 1, sizeBytes: 300_000 };
const checksum = checksumOf(contentOf(file.seed, file.sizeBytes));
/**
 * XFS puts directories into one allocation group after the other, so some of them are in those that are new. All of it is
 * done within the half minute in which XFS leaves what it has logged in the log.
 */
const directories = 24;

describe('T06 NE05: a crash of the node after a volume has grown', () => {
  test('an XFS volume mounts again without a repair, with what was written to its new part', async (t) => {
    await using started = await startNode(t, { config, pools: ['default'], disks });
    const { node } = started;
    const volume = newVolume(node, 'default', 'xfs');
    await volume.create(300n * mebibyte);
    await volume.use();
    await volume.expand(600n * mebibyte);
    const paths = Array.from({ length: directories }, (_, i) => `${volume.targetPath}/${i}`);
    await node.vm.task('makeDirectories', paths);
    const path = `${paths.at(-1)}/file`;
    await node.vm.task('write', { ...file, path });

    await node.vm.reset();
    await node.mount();
    await node.start();
    await volume.use();
    // A repair would have left the original in the trash.
    await look(node, [{ name: 'default', root: `${node.dataDirectory}/pools/default` }]);
    assert.deepEqual(await node.vm.task('checksums', [{ path, sizeBytes: file.sizeBytes }]), [checksum]);
    await volume.leave();
    await volume.delete();
  });
});
