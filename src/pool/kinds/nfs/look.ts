import { join } from 'node:path';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { isErrno } from '../../../kernel/call/errno.ts';
import { explain } from '../../../kernel/call/explain.ts';
import { openBeneath } from '../../../kernel/file/path.ts';
import { canMountType } from '../../../kernel/mount/mount.ts';
import { mountExport, nfsType } from '../../../kernel/nfs/mount.ts';
import { softly } from '../../../kernel/nfs/options.ts';
import { Unavailable } from '../../../volume/errors.ts';
import { lookAtRecords } from '../../catalog/look.ts';
import type { Configured, LookRequest } from '../../kind.ts';
import { absent } from '../../location/find.ts';
import { FileRecords } from '../../records/file-records.ts';
import { Layout } from '../../records/layout.ts';
import { readPoolFile } from '../../records/pool-file.ts';
import { TreeSpace } from '../../records/tree-space.ts';
import { type Finding, fail, type LocationSight, ok, type PoolContents, type PoolSight, warn } from '../../sight.ts';
import type { NfsPoolOptions } from './config.ts';
import { sourceOf } from './context.ts';
import { nfsTraits } from './traits.ts';

const attributes = { readonly: true, nosuid: true, nodev: true, noexec: true, atime: 'noatime' } as const;

/** Looks at a pool through a read-only mount without a place in the file tree, which ends with the look. */
export async function lookAtNfsPool(pool: Configured<NfsPoolOptions>, request: LookRequest): Promise<PoolSight> {
  const { name, own } = pool;
  const { queue } = request;
  const place: Omit<LocationSight, 'state' | 'advice'> = {
    type: 'export',
    path: sourceOf({ exported: own.exported, directory: own.path }),
    holders: [],
  };
  const called = `pool ${name}`;
  try {
    await using mounted = await mountExport(queue, {
      exported: own.exported,
      options: softly(own.options),
      attributes,
      subject: called,
    });
    await using _directory = await openBeneath(queue, mounted, own.path);
    return await mounted.during((mountPoint) => readIn(pool, request, join(mountPoint, own.path), place));
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return { location: { ...place, ...absent(place.path) }, contents: undefined };
    const state = error instanceof Unavailable ? 'silent' : 'broken';
    const advice = explain(error).replace(`${called}: `, '');
    return { location: { ...place, state, advice }, contents: undefined };
  }
}

async function readIn(
  pool: Configured<NfsPoolOptions>,
  { dataDirectory, queue, wanted }: LookRequest,
  root: string,
  place: Omit<LocationSight, 'state' | 'advice'>,
): Promise<PoolSight> {
  const layout = new Layout(root);
  const found = await readPoolFile({
    dataDirectory,
    queue,
    layout,
    poolName: pool.name,
    kind: 'nfs',
    called: place.path,
  });
  if (found === undefined) return { location: { ...place, ...absent(place.path) }, contents: undefined };
  const reserve = { bytes: 0n, hostBytes: 0n };
  const source = new TreeSpace({ queue, layout, reserve }, { sharesBlocks: false });
  const held = await lookAtRecords(pool, { reader: new FileRecords({ queue, layout }), source, wanted });
  const contents: PoolContents = { ...held, traits: nfsTraits, findings: [sizeFinding], shown: new Map() };
  return { location: { ...place, state: 'open', advice: undefined }, contents };
}

const sizeFinding = warn(
  'sizes',
  'an NFS server is not asked to hold the sizes of volumes: a volume can take all that the export has',
  'Set quotas on the server, or give each tenant an export (docs/nfs.md).',
);

/** Checks that this node's kernel has the client. */
export async function checkNfsClient(queue: DiskQueue): Promise<Finding[]> {
  const check = 'NFS client of the kernel';
  if (await canMountType(queue, nfsType)) return [ok(check, 'NFS 4 can be mounted')];
  return [
    fail(
      check,
      'the kernel of this node has no NFS 4',
      'Load its module (modprobe nfsv4), or install the kernel that has it.',
    ),
  ];
}
