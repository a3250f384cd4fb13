import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { canMountType } from '../../../kernel/mount/mount.ts';
import { FailedPrecondition } from '../../../volume/errors.ts';
import { type Finding, fail, ok } from '../../sight.ts';
import { clientPaths, requireClientHost } from './client.ts';

const check = 'GlusterFS';

/** Checks the client of the host, its place outside of the container, and FUSE. */
export async function checkNode(queue: DiskQueue): Promise<Finding[]> {
  if (!(await canMountType(queue, 'fuse'))) {
    return [fail(check, 'the kernel has no FUSE', 'Load its module: modprobe fuse.')];
  }
  try {
    const { cgroups, program } = await requireClientHost(queue, clientPaths);
    const where = 'systemdRun' in cgroups ? 'scopes of systemd' : cgroups.directory;
    return [ok(check, `${program}, in ${where}`)];
  } catch (error) {
    if (!(error instanceof FailedPrecondition)) throw error;
    return [fail(check, error.message.replace(/\.$/, ''), 'See docs/gluster.md; volumes of other kinds need none.')];
  }
}
