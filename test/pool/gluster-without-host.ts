/** A driver that sees only its own processes: an unstage, and a question about a mount. Words: its data, its mounts, the volume. */
import { join } from 'node:path';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { mountAt } from '../../src/kernel/mount/mount-table.ts';
import { glusterNodeKind, openGlusterNode } from '../../src/pool/kinds/gluster/kind.ts';
import type { VolumeOnNode } from '../../src/pool/node-side.ts';
import { fileNameOf } from '../../src/volume/handle.ts';

const [, , dataDirectory = '', mountsDirectory = '', text = ''] = process.argv;
const queue = new DiskQueue('gluster', 4);
const log = { info() {}, warn() {}, error() {} };
const node = await openGlusterNode({ dataDirectory, mountsDirectory, queue, log });
const side = await glusterNodeKind(node).open({ server: '127.0.0.1', dataDirectory, queue, log });
const volume = JSON.parse(text) as VolumeOnNode;
const mount = await mountAt(queue, join(node.mountsDirectory, fileNameOf(volume.handle), 'gluster'));
const refusal = await side.forget?.(volume).then(
  () => 'none',
  (error: unknown) => String(error),
);
const isLost = mount && (await side.isLost?.(volume, mount));
process.stdout.write(JSON.stringify({ refusal, isLost }));
