import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { test } from 'node:test';
import pino from 'pino';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { ContextVolumes } from '../../src/pool/on-node/context-volumes.ts';
import { Servers } from '../../src/pool/on-node/servers.ts';
import { parseHandle } from '../../src/volume/handle.ts';
import { exportKind, lunKind } from '../support/context-kinds.ts';
import { Scratch } from '../support/scratch.ts';

/* A volume whose device the kernel has let go of while it was mounted, as that of a server that stayed away. */

/** No device has this number. */
const gone = { major: 4000, minor: 1 };

async function ownerAt(kind: 'lun' | 'export', device: typeof gone, target: (staging: string) => string) {
  using scratch = new Scratch('context');
  const log = pino({ level: 'silent' });
  const servers = new Servers({ dataDirectory: scratch.path, log, threadsEach: 1, threads: 2 });
  const queue = new DiskQueue('test', 1);
  const directory = scratch.join('volumes');
  const volumes = await ContextVolumes.open({ kinds: [exportKind, lunKind], servers, directory, queue, log });
  const handle = parseHandle('a') ?? assert.fail();
  const image = scratch.join('image');
  const staging = scratch.join('staging');
  const context = kind === 'lun' ? { kind, image } : { kind, source: image };
  await volumes.hold(await volumes.require(handle, context, { access: 'mount', fsType: undefined }), staging);
  const mount = { device, fsType: 'ext4', root: '/', source: '/dev/gone' };
  const owner = await volumes.ownerOf({ device, mount, target: target(staging) }, handle);
  servers.stop();
  return owner?.handle;
}

test('what is mounted from it is the volume, where the volume was put, so that it can be unmounted', async () => {
  assert.equal(await ownerAt('lun', gone, (staging) => staging), 'a');
});

test('and nowhere else, nor while the number is a device, nor for volumes that have none', async () => {
  const [major = 0, minor = 0] = readdirSync('/sys/dev/block')[0]?.split(':').map(Number) ?? [];
  assert.equal(await ownerAt('lun', gone, (staging) => `${staging}-other`), undefined);
  assert.equal(await ownerAt('export', gone, (staging) => staging), undefined);
  assert.equal(await ownerAt('lun', { major, minor }, (staging) => staging), undefined);
});
