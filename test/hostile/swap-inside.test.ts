import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, lstatSync, mkdirSync, readlinkSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { buildDriver, type DriverCommand } from '../crash/bundle.ts';
import { TestVolume } from '../crash/test-volume.ts';
import { attempt } from './attempt.ts';
import { undoAll } from './fixture.ts';
import { HostileNode } from './hostile-node.ts';
import { times } from './runs.ts';
import { startSwapping } from './swapper.ts';

let command: DriverCommand;
before(async () => {
  command = await buildDriver();
});
after(() => command[Symbol.dispose]());

describe('what a pod does in its volume', () => {
  for (const fsType of ['ext4', 'xfs', 'btrfs'] as const) {
    test(`links, files and directories under the names that the driver looks for: ${fsType}`, async (t) => {
      await using hostile = await HostileNode.open(command);
      const { node } = hostile;
      const volume = new TestVolume(node, 'inside', { type: 'mount', fsType });
      await volume.create();
      await volume.stage();
      // Where a device would be, if it were a block volume; where a repair looks for what it found; anything.
      const paths = [volume.id, 'lost+found', 'x'].map((name) => join(volume.stagingPath, name));
      let rounds = 0;
      {
        await using swapping = await startSwapping({ paths, outside: hostile.decoy });
        for (let life = 0; life < times(15); life++) {
          await volume.publish();
          for (const volume_path of [volume.targetPath, volume.stagingPath]) {
            const { usage } = await node.client.node.NodeGetVolumeStats({ volume_id: volume.id, volume_path });
            assert.equal(usage.length, fsType === 'btrfs' ? usage.length : 2);
          }
          // To grow a mounted ext4 takes a privilege that tests may lack.
          await volume.expandOnNode(volume.sizeBytes + (fsType === 'ext4' ? 0n : BigInt(life % 4) << 20n));
          await volume.unpublish();
          hostile.checkUntouched();
        }
        rounds = swapping.rounds;
      }
      t.diagnostic(`${times(15) * 5} calls, while the names in the volume were swapped ${rounds} times`);
      assert.ok(rounds > 0);
      await volume.unstage();
      await volume.delete();
      await hostile.checkEmpty();
      await hostile.stop();
    });
  }

  test('a target that leads into a volume is no door out of it', async () => {
    await using hostile = await HostileNode.open(command);
    const { node } = hostile;
    const outer = new TestVolume(node, 'outer', { type: 'mount', fsType: 'ext4' });
    const inner = new TestVolume(node, 'inner', { type: 'mount', fsType: 'ext4' });
    for (const volume of [outer, inner]) {
      await volume.create();
      await volume.stage();
    }
    await outer.publish();
    symlinkSync(hostile.decoy, join(outer.targetPath, 'out'));
    symlinkSync('/', join(outer.targetPath, 'root'));
    for (const way of ['out/volume', 'out/new', 'root/etc/new', 'out', 'root']) {
      const target_path = join(outer.targetPath, way);
      const { capability: volume_capability, id: volume_id, stagingPath: staging_target_path } = inner;
      const publish = { volume_id, target_path, staging_target_path, volume_capability };
      assert.ok(!(await attempt(() => node.client.node.NodePublishVolume(publish))), way);
      assert.ok(
        !(await attempt(() => node.client.node.NodeStageVolume({ ...publish, staging_target_path: target_path }))),
      );
      await attempt(() => node.client.node.NodeUnpublishVolume({ volume_id, target_path }));
      hostile.checkUntouched();
    }
    for (const link of ['out', 'root']) assert.ok(lstatSync(join(outer.targetPath, link)).isSymbolicLink(), link);
    await undoAll(node);
    await hostile.checkEmpty();
    await hostile.stop();
  });
});

describe('inline volumes from a repository', () => {
  test('a repository full of links, and a target that is swapped meanwhile', async (t) => {
    await using hostile = await HostileNode.open(command);
    const { node } = hostile;
    const repository = makeRepository(hostile);
    const target_path = join(node.kubeletDirectory, 'pods', 'inline', 'volume');
    mkdirSync(dirname(target_path));
    const volume_id = 'csi-inline';
    const ephemeral = { 'csi.storage.k8s.io/ephemeral': 'true' };
    const publish = () =>
      node.client.node.NodePublishVolume({
        volume_id,
        target_path,
        volume_capability: { mount: {}, access_mode: { mode: 'SINGLE_NODE_WRITER' } },
        volume_context: { ...ephemeral, fsType: 'xfs', size: '320Mi', gitRepository: repository },
      });
    const unpublish = () => node.client.node.NodeUnpublishVolume({ volume_id, target_path });
    await publish();
    assert.equal(readlinkSync(join(target_path, 'out')), hostile.decoy);
    assert.ok(lstatSync(join(target_path, 'lost+found')).isSymbolicLink());
    await unpublish();
    let rounds = 0;
    for (const path of [target_path, dirname(target_path)]) {
      await using swapping = await startSwapping({ paths: [path], outside: hostile.decoy });
      for (let life = 0; life < times(4); life++) {
        for (const call of [publish, publish, unpublish]) await attempt(call);
        hostile.checkUntouched();
      }
      rounds += swapping.rounds;
    }
    t.diagnostic(`${times(4) * 6} calls, while the path was swapped ${rounds} times`);
    // Its last unpublish may have met a path that was not there: the kubelet repeats it, at the path as it is now.
    await undoAll(node);
    await unpublish();
    await hostile.checkEmpty();
    await hostile.stop();
  });
});

/** With links out, and with what a filesystem has by itself under another guise. */
function makeRepository({ decoy, node }: HostileNode): string {
  const path = node.scratch.join('repository');
  mkdirSync(join(path, 'd'), { recursive: true });
  // Git runs as nobody in particular, who must get to it.
  chmodSync(node.scratch.path, 0o755);
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=x', '-c', 'user.email=x', ...args], { cwd: path });
  git('init', '--quiet');
  symlinkSync(decoy, join(path, 'out'));
  symlinkSync(decoy, join(path, 'lost+found'));
  symlinkSync('..', join(path, 'd', 'up'));
  symlinkSync('/proc/self/fd', join(path, 'd', 'fd'));
  writeFileSync(join(path, 'd', 'run'), '#!/bin/sh\n', { mode: 0o6755 });
  git('add', '.');
  git('commit', '--quiet', '--message=x');
  return path;
}
