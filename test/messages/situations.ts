import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { linkSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { AdminClient } from '../../src/admin/client.ts';
import { ObjectQueue } from '../../src/volume/flow/object-queue.ts';
import { startNamespace } from '../support/child.ts';
import { eventually } from '../support/eventually.ts';
import { mountWith } from '../support/life.ts';
import type { Scratch } from '../support/scratch.ts';
import { ClaimedVolume, type Stage, uid } from './claimed-volume.ts';

/** What goes wrong in a cluster. Each ends in the call that is refused, and tidies up before it throws. */
export const situations: Readonly<Record<string, (stage: Stage) => Promise<unknown>>> = {
  'the pool is full': (stage) => new ClaimedVolume(stage).create({ capacity_range: { required_bytes: 1n << 40n } }),
  'the pool has no inodes left': async (stage) => {
    const directory = stage.scratch.join('small/foreign');
    mkdirSync(directory);
    const useUp = () => {
      for (let index = 0; ; index++) writeFileSync(join(directory, `${index}`), '');
    };
    try {
      assert.throws(useUp, /ENOSPC/);
      await new ClaimedVolume(stage, { pool: 'small' }).create();
    } finally {
      rmSync(directory, { recursive: true });
    }
  },
  'the disk of the pool is sick': async (stage) => {
    const remount = (option: string) => execFileSync('mount', ['-o', `remount,${option}`, stage.scratch.join('small')]);
    const volume = new ClaimedVolume(stage, { pool: 'small' });
    remount('ro');
    try {
      await eventually(() => assert.rejects(volume.create(), /quarantine/));
      await volume.create();
    } finally {
      remount('rw');
      await eventually(async () => void (await volume.create()));
      await volume.remove();
    }
  },
  'the class names a pool that is not there': (stage) => new ClaimedVolume(stage, { pool: 'fast' }).create(),
  'the pool could not be opened': ({ half, scratch }) =>
    new ClaimedVolume({ half, scratch, client: half }, { pool: 'broken' }).create(),
  'the volume may be in a pool that is not open': async ({ half, scratch }) => {
    const volume = new ClaimedVolume({ half, scratch, client: half });
    volume.id = `vol-${'a'.repeat(26)}`;
    await volume.stage();
  },
  'the class has a parameter that is none': (stage) => new ClaimedVolume(stage, { type: 'ssd' }).create(),
  'a parameter has a value that cannot be': (stage) => new ClaimedVolume(stage, { provisioning: 'fat' }).create(),
  'a layout is asked for where there is none': (stage) => new ClaimedVolume(stage, { layout: 'raid1' }).create(),
  'a wipe is asked for where there is none': (stage) => new ClaimedVolume(stage, { wipe: 'zero' }).create(),
  'mkfsOptions has what is not allowed': (stage) => new ClaimedVolume(stage, { mkfsOptions: '-d /etc' }).create(),
  'mkfs does not take its options': (stage) => new ClaimedVolume(stage, { mkfsOptions: '-I 100' }).create(),
  'the filesystem is not known': (stage) =>
    new ClaimedVolume(stage).create({ volume_capabilities: [mountWith('zfs')] }),
  'the access mode is for several nodes': (stage) =>
    new ClaimedVolume(stage).create({
      volume_capabilities: [{ mount: {}, access_mode: { mode: 'MULTI_NODE_MULTI_WRITER' } }],
    }),
  'the claim wants another node': (stage) =>
    new ClaimedVolume(stage).create({
      accessibility_requirements: { requisite: [{ segments: { 'topology.holdfast.csi.dev/node': 'other' } }] },
    }),
  'the name is taken': async (stage) => {
    const volume = await new ClaimedVolume(stage).create();
    const capacity_range = { required_bytes: 128n << 20n };
    await always(volume.create({ capacity_range }), () => volume.remove());
  },
  'the volume is not on this node': async (stage) => {
    const volume = new ClaimedVolume(stage);
    volume.id = `vol-${'a'.repeat(26)}`;
    await volume.stage();
  },
  'a mount option is not known': async (stage) => {
    const volume = await new ClaimedVolume(stage).create();
    const mount = { fs_type: 'ext4', mount_flags: ['nonsense'] };
    const capability = { mount, access_mode: { mode: 'SINGLE_NODE_WRITER' } } as const;
    await always(volume.stage(capability), () => volume.remove());
  },
  'the claim asks for a mode that it was not made for': async (stage) => {
    const alone = { mount: { fs_type: 'ext4' }, access_mode: { mode: 'SINGLE_NODE_SINGLE_WRITER' } } as const;
    const volume = await new ClaimedVolume(stage).create({ volume_capabilities: [alone] });
    const shared = { mount: { fs_type: 'ext4' }, access_mode: { mode: 'SINGLE_NODE_MULTI_WRITER' } } as const;
    await always(volume.stage(shared), () => volume.remove());
  },
  'its filesystem lives on elsewhere with other options': async (stage) => {
    const volume = await (await new ClaimedVolume(stage).create()).stage();
    const user = await startNamespace(volume.staging);
    await volume.unstage();
    const mount = { fs_type: 'ext4', mount_flags: ['noauto_da_alloc'] };
    const capability = { mount, access_mode: { mode: 'SINGLE_NODE_WRITER' } } as const;
    await always(volume.stage(capability), async () => {
      await user[Symbol.asyncDispose]();
      await eventually(() => volume.remove());
    });
  },
  'the volume is not staged': async (stage) => {
    const volume = await new ClaimedVolume(stage).create();
    await always(volume.publish(), () => volume.remove());
  },
  'another pod has it': async (stage) => {
    const alone = { mount: { fs_type: 'ext4' }, access_mode: { mode: 'SINGLE_NODE_SINGLE_WRITER' } } as const;
    const volume = await new ClaimedVolume(stage).create({ volume_capabilities: [alone] });
    await volume.stage(alone);
    await volume.publish(1, alone);
    await always(volume.publish(2, alone), () => volume.down());
  },
  'another pod writes to its device': async (stage) => {
    const block = { block: {}, access_mode: { mode: 'SINGLE_NODE_MULTI_WRITER' } } as const;
    const volume = await new ClaimedVolume(stage).create({ volume_capabilities: [block] });
    await volume.stage(block);
    await volume.publish(1, block);
    await always(volume.publish(2, block, true), () => volume.down());
  },
  'data lies where it is to be mounted': async (stage) => {
    const volume = await (await new ClaimedVolume(stage).create()).stage();
    mkdirSync(volume.target(), { recursive: true });
    writeFileSync(join(volume.target(), 'file'), 'x');
    await always(volume.publish(), async () => {
      rmSync(volume.target(), { recursive: true });
      await volume.down();
    });
  },
  'a process keeps it in use': async (stage) => {
    const volume = await (await (await new ClaimedVolume(stage).create()).stage()).publish();
    const user = spawn('sleep', ['600'], { cwd: volume.target(), stdio: 'ignore' });
    await once(user, 'spawn');
    await always(volume.unpublish(), async () => {
      user.kill();
      await once(user, 'exit');
      await volume.down();
    });
  },
  'it is deleted while a pod has it': async (stage) => {
    const volume = await (await (await new ClaimedVolume(stage).create()).stage()).publish();
    await always(volume.remove(), () => volume.down());
  },
  'it is unstaged while a pod has it': async (stage) => {
    const volume = await (await (await new ClaimedVolume(stage).create()).stage()).publish();
    await always(volume.unstage(), () => volume.down());
  },
  'a snapshot where blocks cannot be shared': async (stage) => {
    const volume = await (await (await new ClaimedVolume(stage, { pool: 'plain' }).create()).stage()).publish();
    const snapshot = stage.client.controller.CreateSnapshot({ source_volume_id: volume.id, name: 's' });
    await always(snapshot, () => volume.down());
  },
  'a group with a raw block volume in use': async (stage) => {
    const capability = { block: {}, access_mode: { mode: 'SINGLE_NODE_WRITER' } } as const;
    const volume = await new ClaimedVolume(stage).create({ volume_capabilities: [capability] });
    const other = await new ClaimedVolume(stage).create();
    await volume.stage(capability);
    const source_volume_ids = [volume.id, other.id];
    const group = stage.client.groupController.CreateVolumeGroupSnapshot({ name: 'g', source_volume_ids });
    await always(group, async () => {
      await volume.unstage();
      await volume.remove();
      await other.remove();
    });
  },
  "a snapshot's class has a parameter": async (stage) => {
    const volume = await new ClaimedVolume(stage).create();
    const request = { source_volume_id: volume.id, name: 's', parameters: { retention: '7d' } };
    await always(stage.client.controller.CreateSnapshot(request), () => volume.remove());
  },
  'it is to grow while its filesystem cannot': async (stage) => {
    const volume = await new ClaimedVolume(stage).create();
    const mount = { fs_type: 'ext4', mount_flags: ['ro'] };
    await volume.stage({ mount, access_mode: { mode: 'SINGLE_NODE_WRITER' } });
    const grow = stage.client.node.NodeExpandVolume({
      volume_id: volume.id,
      volume_path: volume.staging,
      capacity_range: { required_bytes: 128n << 20n },
    });
    await always(grow, async () => {
      await volume.unstage();
      await volume.remove();
    });
  },
  'it is to grow while it is frozen': async (stage) => {
    const volume = await new ClaimedVolume(stage).create();
    await volume.stage();
    await volume.publish();
    execFileSync('fsfreeze', ['--freeze', volume.target()]);
    const grow = stage.client.node.NodeExpandVolume({
      volume_id: volume.id,
      volume_path: volume.target(),
      capacity_range: { required_bytes: 96n << 20n },
    });
    await always(grow, async () => {
      execFileSync('fsfreeze', ['--unfreeze', volume.target()]);
      await volume.down();
    });
  },
  'it is to grow beyond its pool': async (stage) => {
    const volume = await (await (await new ClaimedVolume(stage).create()).stage()).publish();
    const capacity_range = { required_bytes: 1n << 40n };
    const grow = stage.client.node.NodeExpandVolume({
      volume_id: volume.id,
      volume_path: volume.target(),
      capacity_range,
    });
    await always(grow, () => volume.down());
  },
  'its image is gone': async (stage) => {
    const volume = await new ClaimedVolume(stage, { pool: 'plain' }).create();
    rmSync(stage.scratch.join('plain', 'volumes', volume.id, 'data'));
    await always(volume.stage(), () => volume.remove());
  },
  'its image is cut short': async (stage) => {
    const volume = await new ClaimedVolume(stage, { pool: 'plain' }).create();
    execFileSync('truncate', ['--size=1M', stage.scratch.join('plain', 'volumes', volume.id, 'data')]);
    await always(volume.stage(), () => volume.remove());
  },
  'somebody wrote over its filesystem': async (stage) => {
    const volume = await new ClaimedVolume(stage, { pool: 'plain' }).create();
    const image = stage.scratch.join('plain', 'volumes', volume.id, 'data');
    execFileSync('dd', ['if=/dev/zero', `of=${image}`, 'bs=1M', 'count=2', 'conv=notrunc'], { stdio: 'ignore' });
    await always(volume.stage(), () => volume.remove());
  },
  'an inline volume has an attribute that is none': async (stage) => {
    const target_path = stage.scratch.join('kubelet/pods', uid(1), 'volumes/kubernetes.io~csi/scratch/mount');
    mkdirSync(dirname(target_path), { recursive: true });
    await stage.client.node.NodePublishVolume({
      volume_id: `csi-${'0123456789abcdef'.repeat(4)}`,
      target_path,
      volume_capability: mountWith(''),
      volume_context: { 'csi.storage.k8s.io/ephemeral': 'true', capacity: '1Gi' },
    });
  },
  'a directory that is to be adopted is in use': async ({ scratch }) => {
    const path = legacyDirectory(scratch);
    const user = spawn('sleep', ['600'], { cwd: path, stdio: 'ignore' });
    await once(user, 'spawn');
    await always(adopt(scratch, path), async () => {
      user.kill();
      await once(user, 'exit');
    });
  },
  'a directory that is to be adopted is seen through another mount': async ({ scratch }) => {
    const path = legacyDirectory(scratch);
    const mountPoint = scratch.join('second-mount');
    mkdirSync(mountPoint, { recursive: true });
    execFileSync('mount', ['--bind', dirname(path), mountPoint]);
    await always(adopt(scratch, join(mountPoint, basename(path))), async () => {
      execFileSync('umount', [mountPoint]);
    });
  },
  'a directory that is to be adopted shares a file': async ({ scratch }) => {
    const path = legacyDirectory(scratch);
    writeFileSync(join(path, 'file'), '');
    linkSync(join(path, 'file'), `${path}-link`);
    await adopt(scratch, path);
  },
  'a directory that is to be adopted lies behind a link': async ({ scratch }) => {
    const path = legacyDirectory(scratch);
    symlinkSync(path, `${path}-symlink`);
    await adopt(scratch, `${path}-symlink/sub`);
  },
  'another call is at work': async () => {
    const objects = new ObjectQueue(0);
    const id = `vol-${'a'.repeat(26)}`;
    let done = () => {};
    const first = objects.run(id, 'NodeStageVolume', '', () => new Promise<void>((resolve) => (done = resolve)));
    await always(
      objects.run(id, 'DeleteVolume', '', async () => {}),
      async () => {
        done();
        await first;
      },
    );
  },
};

function legacyDirectory(scratch: Scratch): string {
  const path = mkdtempSync(scratch.join('pvc-'));
  mkdirSync(join(path, 'sub'));
  return path;
}

function adopt(scratch: Scratch, path: string): Promise<unknown> {
  const client = new AdminClient(scratch.join('data', 'admin.sock'));
  return client.adopt({ path, pool: 'directories', namespace: 'shop', claim: 'db' });
}

/** Waits for the call, whichever way it ends, and then tidies up. */
async function always(call: Promise<unknown>, tidyUp: () => Promise<void>): Promise<void> {
  try {
    await call;
  } finally {
    await tidyUp();
  }
}
