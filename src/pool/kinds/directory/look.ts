import { dirname } from 'node:path';
import { openReadOnly } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { isErrno } from '../../../kernel/call/errno.ts';
import { DirectorySync } from '../../../kernel/file/file.ts';
import { seesReflink } from '../../../kernel/file/filesystem.ts';
import { statusOf } from '../../../kernel/file/path.ts';
import { ProjectQuota } from '../../../kernel/file/project-quota.ts';
import { placeOf } from '../../../kernel/mount/filesystem-place.ts';
import { seesAllProcesses } from '../../../kernel/process/process.ts';
import { lookAtRecords } from '../../catalog/look.ts';
import type { TrashRef } from '../../indexes/trash-entry.ts';
import type { Configured, LookRequest } from '../../kind.ts';
import type { FoundLocation } from '../../location/find.ts';
import { lookInLocation } from '../../location/look.ts';
import { CommitOrder } from '../../records/commit-order.ts';
import { FileRecords } from '../../records/file-records.ts';
import { Layout } from '../../records/layout.ts';
import { readMarkInTrash } from '../../records/move-marks.ts';
import { type Finding, fail, ok, type PoolContents, type PoolSight, type Shown, warn } from '../../sight.ts';
import type { DirectoryOptions } from './config.ts';
import { noQuota } from './no-quota.ts';
import { Projects } from './projects.ts';
import { DirectorySpace } from './space.ts';
import { directoryTraits } from './traits.ts';

export async function lookAtDirectoryPool(
  pool: Configured<DirectoryOptions>,
  request: LookRequest,
): Promise<PoolSight> {
  const location = { type: 'directory', path: pool.own.path } as const;
  const options = { ...request, poolName: pool.name, poolKind: 'directory', location, systemDisk: pool.own.systemDisk };
  const sight = await lookInLocation(options, (found) => readContents(pool, request, found));
  const canBeMade =
    sight.location.state !== 'absent' || pool.own.quota !== 'required' || (await hasQuota(pool, request));
  if (canBeMade) return sight;
  const advice = noQuota(pool.name, pool.own.path).message.replace(`pool ${pool.name}: `, '');
  return { ...sight, location: { ...sight.location, state: 'broken', advice } };
}

/** True if quota is enforced where the pool will be made. */
async function hasQuota({ own }: Configured<DirectoryOptions>, { queue }: LookRequest): Promise<boolean> {
  await using directory = await openReadOnly(queue, own.path).catch((error) => {
    if (!isErrno(error, 'ENOENT')) throw error;
    return openReadOnly(queue, dirname(own.path));
  });
  return (await new ProjectQuota(queue, directory).state()).isEnforced;
}

async function readContents(
  pool: Configured<DirectoryOptions>,
  { dataDirectory, queue, wanted }: LookRequest,
  { source: root }: FoundLocation,
): Promise<PoolContents> {
  const layout = new Layout(root);
  await using directory = await openReadOnly(queue, root);
  const place = await placeOf(queue, directory, root);
  const quota = new ProjectQuota(queue, directory);
  const { isEnforced } = await quota.state();
  const isUsed = pool.own.quota !== 'none' && isEnforced;
  const projects = isUsed ? await readProjects(queue, layout, quota, pool.name) : undefined;
  const canShareBlocks = await seesReflink(queue, root);
  const bytes = (await statusOf(queue, layout.reserve).catch(() => undefined))?.allocatedBytes ?? 0n;
  const reserve = { bytes, hostBytes: 0n };
  const source = new DirectorySpace({ queue, layout, projects, reserve, canShareBlocks: canShareBlocks === true });
  const marks = { markInTrash: (ref: TrashRef) => readMarkInTrash({ queue }, ref), queue, dataDirectory };
  const held = await lookAtRecords(pool, { reader: new FileRecords({ queue, layout }), source, wanted, marks });
  const shown = held.records.map(({ id }): [typeof id, Shown[]] => {
    const below = layout.data(id).slice(root.length);
    return [id, [{ kind: 'directory', device: place.device, root: `${place.root === '/' ? '' : place.root}${below}` }]];
  });
  return {
    ...held,
    traits: directoryTraits(canShareBlocks === true),
    findings: [quotaFinding(pool, isEnforced), ...(await containerFindings(queue))],
    shown: new Map(shown),
  };
}

/** Nothing is assigned, so where the numbers begin makes no difference. */
function readProjects(queue: DiskQueue, layout: Layout, quota: ProjectQuota, poolName: string): Promise<Projects> {
  const order = new CommitOrder(queue, new DirectorySync(), false);
  return Projects.read({ queue, layout, order, quota, poolName, poolId: '' });
}

/** A container may outlive the unstage of its volume, and only its own mount table has the directory then. */
async function containerFindings(queue: DiskQueue): Promise<Finding[]> {
  if (await seesAllProcesses(queue)) return [];
  const detail =
    'it cannot be seen whether another container still has a directory when it is deleted, copied or adopted';
  return [warn('containers', detail, 'Let the driver see the processes of the node (hostPID: true).')];
}

function quotaFinding({ own }: Configured<DirectoryOptions>, isEnforced: boolean): Finding {
  const check = 'project quota';
  if (isEnforced) return ok(check, own.quota === 'none' ? 'enforced, but not to be used (quota: none)' : 'enforced');
  if (own.quota === 'none') return ok(check, 'not to be used (quota: none): the sizes of volumes are not enforced');
  const remedy = 'Mount the filesystem with prjquota (docs/directories.md).';
  if (own.quota === 'required') return fail(check, 'not enforced', remedy);
  return warn(check, 'not enforced: a volume can grow beyond its size', remedy);
}
