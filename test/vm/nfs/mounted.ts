import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { DiskQueue } from '../../../src/kernel/call/disk-queue.ts';
import { openDirectory } from '../../../src/kernel/file/path.ts';
import { readMountTable } from '../../../src/kernel/mount/mount-table.ts';
import { unmountNfsAt } from '../../../src/kernel/nfs/unmount.ts';
import type { Catalog } from '../../../src/pool/catalog/catalog.ts';
import { nfsNodeKind } from '../../../src/pool/kinds/nfs/node.ts';
import type { VolumeOnNode } from '../../../src/pool/node-side.ts';
import { parseHandle } from '../../../src/volume/handle.ts';
import { testExport } from '../../support/nfs-pool.ts';
import { quiet } from '../../support/pool-log.ts';

export const queue = new DiskQueue('node', 4);

export function volumeWith(context: Record<string, string>, handleText = 'by-hand'): VolumeOnNode {
  const handle = parseHandle(handleText);
  assert.ok(handle !== undefined);
  return { handle, context, content: { type: 'directory' }, accessModes: [], provisioning: 'thin' };
}

/** Mounts a volume as a node does that knows nothing of pools. */
export async function mountOnNode(volume: VolumeOnNode, path: string, flags: readonly (readonly [string])[] = []) {
  const side = await nfsNodeKind.open({ server: testExport.host, dataDirectory: '/tmp', queue, log: quiet });
  mkdirSync(path, { recursive: true });
  const attachment = await side.attach(volume, { persistent: false });
  assert.ok(attachment.kind === 'mountable' && attachment.mountAt !== undefined);
  {
    await using target = await openDirectory(queue, path);
    await attachment.mountAt(target, { attributes: {}, parameters: flags });
  }
  return async () => {
    const mount = (await readMountTable(queue)).find(({ target }) => target === path);
    assert.ok(mount);
    assert.equal(nfsNodeKind.shows(volume, { device: undefined, mount }), 'whole');
    await using parent = await openDirectory(queue, join(path, '..'));
    await unmountNfsAt(parent, basename(path), mount);
  };
}

export function contextOf(
  pool: Catalog,
  record: Parameters<NonNullable<Catalog['cluster']>['contextOf']>[0],
): Record<string, string> {
  return { ...(pool.cluster?.contextOf(record) ?? assert.fail('no pool of the cluster')) };
}
