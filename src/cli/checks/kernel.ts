import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { release, tmpdir } from 'node:os';
import { join } from 'node:path';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { explain } from '../../kernel/call/explain.ts';
import { openBeneath, openDirectory } from '../../kernel/file/path.ts';
import { bindMount, mountFilesystem, unmount } from '../../kernel/mount/mount.ts';
import { type Finding, fail, ok, warn } from '../../pool/sight.ts';
import { filesystemTypes } from '../../volume/filesystem.ts';
import { knownModules } from './modules.ts';

/** The driver's needs of the kernel, tried for real in a temporary directory. */
export async function checkKernel(queue: DiskQueue): Promise<Finding[]> {
  const directory = await mkdtemp(join(tmpdir(), 'holdfast-doctor-'));
  try {
    return [
      ok('kernel', `Linux ${release()}`),
      await attempt('mounts', 'fsmount, move_mount, mount_setattr, openat2', needsKernel, () =>
        tryMounts(queue, directory),
      ),
      ...(await checkFilesystems()),
    ];
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

const needsKernel =
  'It takes CAP_SYS_ADMIN, Linux 5.15 or newer, and no seccomp or AppArmor profile that denies mounts. In Kubernetes: securityContext.privileged: true.';

async function attempt(check: string, what: string, remedy: string, work: () => Promise<void>): Promise<Finding> {
  try {
    await work();
    return ok(check, what);
  } catch (error) {
    return fail(check, explain(error), remedy);
  }
}

async function tryMounts(queue: DiskQueue, directory: string): Promise<void> {
  const filesystem = join(directory, 'filesystem');
  const bind = join(directory, 'bind');
  await mkdir(filesystem);
  await mkdir(bind);
  const mounted: string[] = [];
  try {
    await using root = await openDirectory(queue, directory);
    await using target = await openBeneath(queue, root, 'filesystem');
    await mountFilesystem(queue, {
      fsType: 'tmpfs',
      source: 'holdfast-doctor',
      parameters: [],
      attributes: {},
      target,
    });
    mounted.unshift(filesystem);
    await using from = await openDirectory(queue, filesystem);
    await using bindTarget = await openBeneath(queue, root, 'bind');
    await bindMount(queue, { from, target: bindTarget, attributes: { readonly: true } });
    mounted.unshift(bind);
  } finally {
    for (const path of mounted) await unmount(queue, path);
  }
}

/** A filesystem that is a module and not loaded yet is fine: the kernel loads it at the first mount. */
async function checkFilesystems(): Promise<Finding[]> {
  const loaded = await readFile('/proc/filesystems', 'utf8');
  const modules = await knownModules();
  return filesystemTypes.map((type) => {
    if (new RegExp(`\\t${type}$`, 'm').test(loaded)) return ok(type, 'known to the kernel');
    if (modules.includes(`/${type}.ko`)) return ok(type, 'a module, loaded at the first mount');
    return warn(
      type,
      'not known to the kernel',
      `Volumes with ${type} cannot be mounted: load its module (modprobe ${type}) or use another filesystem.`,
    );
  });
}
