import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { gce } from '../cloud/clouds.ts';
import { digestOf, sparseFile } from '../support/disk.ts';
import { Scratch } from '../support/scratch.ts';
import { bundlePrograms } from './machine/bundle.ts';
import { bootVirtualMachine } from './machine/virtual-machine.ts';

const disks = 'projects/test-project/zones/eu-test-1a/disks';
const newKey = () => ({ key: randomBytes(32).toString('base64') });

test('a persistent disk that a PersistentVolume names is encrypted if it is blank, grows, and is let go', async () => {
  const directory = await bundlePrograms('cloud', ['node-in-guest']);
  using scratch = new Scratch('vm');
  await using vm = await bootVirtualMachine({ scratch, hasScsi: true });
  await vm.run('modprobe -a virtio_scsi sd_mod dm-crypt');
  const secrets = newKey();
  const node = (work: string, name: string, { handle = `${disks}/${name}`, keys = secrets, more = '' } = {}) => {
    const context = JSON.stringify({ kind: gce.kind, volumeId: `${disks}/${name}`, encryption: 'luks2' });
    const words = [gce.kind, work, handle, `'${context}'`, "'{}'", `'${JSON.stringify(keys)}'`, more];
    return vm.run(`${process.execPath} ${directory}node-in-guest.mjs ${words.join(' ')}`);
  };
  const nothingLeft = async () => {
    assert.equal((await vm.run('ls /run/cloud/data/volumes')).trim(), '');
    assert.match(await vm.run('dmsetup ls'), /No devices/);
  };
  const images = { blank: sparseFile(scratch.join('blank'), 320), foreign: sparseFile(scratch.join('foreign'), 320) };
  execFileSync('mkfs.ext4', ['-q', images.foreign]);
  for (const [name, path] of Object.entries(images)) await vm.plug({ name, path, diskName: name });
  const digests = () => Object.values(images).map(digestOf);

  const first = JSON.parse(await node('up', 'blank'));
  assert.match(first.device, /^\/dev\/(dm-|mapper\/holdfast-)/);
  await vm.resize({ name: 'blank' }, 400 << 20);
  assert.ok(Number(await node('grow', 'blank', { more: `${400 << 20}` })) > 340 << 20);
  await node('down', 'blank');
  await nothingLeft();
  await vm.run('sync');
  assert.ok(!readFileSync(images.blank).includes(first.content));

  const before = digests();
  assert.match(await node('refused', 'blank', { keys: newKey() }), /^FAILED_PRECONDITION .* it needs key-[0-9a-f]{16}/);
  assert.match(await node('refused', 'foreign'), /^FAILED_PRECONDITION .* holds a filesystem \(ext4\)\. Only a blank/);
  const made = { handle: `vol-${'a'.repeat(26)}` };
  assert.match(
    await node('refused', 'foreign', made),
    /^INVALID_ARGUMENT .* was made by this driver, without encryption/,
  );
  await nothingLeft();
  assert.deepEqual(digests(), before);

  assert.deepEqual(JSON.parse(await node('up', 'blank')).content, first.content);
  await node('down', 'blank');
  await nothingLeft();
});
