import assert from 'node:assert/strict';
import { join } from 'node:path';
import { exampleDirectory } from '../../deploy/examples.ts';
import { deviceCluster } from '../harness/devices/current.ts';
import { deviceTest } from '../harness/devices/device-test.ts';
import { claim, pod } from '../harness/objects.ts';
import { waitFor } from '../harness/waiting.ts';

const example = join(exampleDirectory, 'disk.yaml');

deviceTest('a claim gets a whole disk, which is blank again when it is deleted', async (namespace) => {
  const { driver, kubectl } = deviceCluster();
  await kubectl.run(['apply', '--validate=strict', '-f', example]);
  try {
    const asked = { storageClass: 'holdfast-disk', size: '512Mi' };
    await namespace.apply(claim('own', asked), pod('first', { volumes: { own: 'own' } }));
    await namespace.running('first');
    assert.ok(Number(await namespace.exec('first', "df -m /own | awk 'END { print $2 }'")) > 900, 'all of the disk');
    const sum = await namespace.exec('first', 'head -c 4000000 /dev/urandom > /own/file; sync; md5sum < /own/file');
    await namespace.remove('pod/first');
    await namespace.apply(
      pod('second', { volumes: { own: 'own' } }),
      claim('none', asked),
      pod('waits', { volumes: { none: 'none' } }),
    );
    await namespace.running('second');
    assert.equal(await namespace.exec('second', 'md5sum < /own/file'), sum);
    // There is one such disk. Another claim waits until it is free, and then gets it, with nothing in it.
    await namespace.remove('pod/second', 'pvc/own');
    await namespace.running('waits');
    assert.equal(await namespace.exec('waits', 'ls -A /none | grep -v lost+found || true'), '');
  } finally {
    await kubectl.run(['delete', '-f', example]);
  }
  await waitFor('the disks to be listed', async () => {
    const disks = await driver.holdfast('disks');
    assert.match(disks, /QEMU_HARDDISK_other/);
  });
});
