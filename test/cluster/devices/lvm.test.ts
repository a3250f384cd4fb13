import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe } from 'node:test';
import { exampleDirectory } from '../../deploy/examples.ts';
import { deviceCluster } from '../harness/devices/current.ts';
import { deviceTest } from '../harness/devices/device-test.ts';
import { storageClass } from '../harness/devices/storage-class.ts';
import { claim, fromClaim, fromSnapshot, pod, snapshot } from '../harness/objects.ts';

const mebibyte = 2 ** 20;
const example = join(exampleDirectory, 'lvm.yaml');

describe('volume groups', () => {
  before(async () => {
    const { kubectl } = deviceCluster();
    await kubectl.run(['apply', '--validate=strict', '-f', example]);
    await kubectl.apply([storageClass('thin', { pool: 'thin' })]);
  });
  after(async () => {
    const { kubectl } = deviceCluster();
    await kubectl.run(['delete', '-f', example]);
    await kubectl.run(['delete', 'storageclass', 'thin']);
  });

  deviceTest('a volume keeps what was written, from one pod to the next, and grows under it', async (namespace) => {
    const volumes = { data: 'data' };
    await namespace.apply(claim('data', { storageClass: 'holdfast-fast', size: '256Mi' }), pod('first', { volumes }));
    await namespace.running('first');
    const sum = await namespace.exec('first', 'head -c 4000000 /dev/urandom > /data/file; sync; md5sum < /data/file');
    await namespace.remove('pod/first');
    await namespace.apply(pod('second', { volumes }));
    await namespace.running('second');
    assert.equal(await namespace.exec('second', 'md5sum < /data/file'), sum);

    const larger = '{"spec":{"resources":{"requests":{"storage":"512Mi"}}}}';
    await namespace.run(['patch', 'pvc', 'data', '--patch', larger]);
    await namespace.wait('--for=jsonpath={.status.capacity.storage}=512Mi', 'pvc/data');
    assert.ok(Number(await namespace.exec('second', "df -m /data | awk 'END { print $2 }'")) > 450);
    assert.equal(await namespace.exec('second', 'md5sum < /data/file'), sum);
  });

  deviceTest('a device, and a driver that is killed while pods use volumes', async (namespace) => {
    const { driver, vm } = deviceCluster();
    const device = { disk: { source: 'disk', block: true } };
    await namespace.apply(
      claim('disk', { storageClass: 'holdfast-fast', volumeMode: 'Block', size: '64Mi' }),
      claim('data', { storageClass: 'thin', size: '128Mi' }),
      pod('device', { volumes: device }),
      pod('files', { volumes: { data: 'data' } }),
    );
    await namespace.running('device', 'files');
    assert.equal(await namespace.exec('device', 'blockdev --getsize64 /dev/disk'), `${64 * mebibyte}`);
    const write =
      'head -c 1048576 /dev/urandom | tee /tmp/data | dd of=/dev/disk conv=fsync 2>/dev/null; md5sum < /tmp/data';
    const sum = await namespace.exec('device', write);
    await vm.run("pkill --signal KILL --full 'holdfast.mjs serve'");
    assert.equal(await namespace.exec('files', 'echo on > /data/file; sync; cat /data/file'), 'on');
    await driver.ready();
    await namespace.remove('pod/device', 'pod/files');
    await namespace.apply(pod('again', { volumes: { ...device, data: 'data' } }));
    await namespace.running('again');
    assert.equal(await namespace.exec('again', 'head -c 1048576 /dev/disk | md5sum'), sum);
    assert.equal(await namespace.exec('again', 'cat /data/file'), 'on');
  });

  for (const { name, pool } of [
    { name: 'thin, in use', pool: 'thin' },
    { name: 'thick, at rest', pool: 'holdfast-fast' },
  ]) {
    deviceTest(`a snapshot that is restored, and a clone: ${name}`, async (namespace) => {
      const asked = { storageClass: pool, size: '128Mi' };
      await namespace.apply(claim('data', asked), pod('writer', { volumes: { data: 'data' } }));
      await namespace.running('writer');
      await namespace.exec('writer', 'echo before > /data/file; sync');
      if (pool !== 'thin') await namespace.remove('pod/writer');
      await namespace.apply(snapshot('before', 'data'), claim('clone', { ...asked, dataSource: fromClaim('data') }));
      await namespace.wait('--for=jsonpath={.status.readyToUse}=true', 'volumesnapshot/before');
      if (pool === 'thin') await namespace.exec('writer', 'echo after > /data/file; sync');
      await namespace.apply(
        claim('restored', { ...asked, dataSource: fromSnapshot('before') }),
        pod('reader', { volumes: { restored: 'restored', clone: 'clone' } }),
      );
      await namespace.running('reader');
      assert.equal(await namespace.exec('reader', 'cat /restored/file'), 'before');
      assert.match(await namespace.exec('reader', 'cat /clone/file'), /^(before|after)$/);
    });
  }
});
