import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, before, describe } from 'node:test';
import { Scratch } from '../../support/scratch.ts';
import { networkCluster } from '../harness/network/current.ts';
import { nodeNames, storageAddress } from '../harness/network/network-cluster.ts';
import { networkTest } from '../harness/network/network-test.ts';
import { adoptionCommands, oldPersistentVolume, oldVolumes } from '../harness/network/nfs-adoption.ts';
import { claim, fromClaim, fromSnapshot, type Manifest, pod, snapshot } from '../harness/objects.ts';

const [near] = nodeNames;
const asked = { storageClass: 'holdfast-files', accessMode: 'ReadWriteMany', size: '64Mi' } as const;
const volumes = { shared: 'shared' };
const snapshotClass: Manifest = {
  apiVersion: 'snapshot.storage.k8s.io/v1',
  kind: 'VolumeSnapshotClass',
  metadata: { name: 'holdfast-files' },
  driver: 'files.holdfast.csi.dev',
  deletionPolicy: 'Delete',
} as Manifest;

describe('volumes on NFS', () => {
  before(() => networkCluster().drivers.install('files'));
  after(() => networkCluster().drivers.uninstall('files'));

  networkTest('nfs: a claim gets a directory, which keeps what was written, and grows', async (namespace) => {
    await namespace.apply(claim('shared', asked), pod('first', { node: near, volumes }));
    await namespace.running('first');
    await namespace.exec('first', 'echo one >/shared/file; sync /shared/file');
    await namespace.apply(pod('second', { node: near, volumes }));
    await namespace.running('second');
    assert.equal(await namespace.exec('second', 'cat /shared/file'), 'one');
    const larger = '{"spec":{"resources":{"requests":{"storage":"128Mi"}}}}';
    await namespace.run(['patch', 'pvc', 'shared', '--patch', larger]);
    await namespace.wait('--for=jsonpath={.status.capacity.storage}=128Mi', 'pvc/shared');
  });

  networkTest('nfs: PersistentVolumes of other drivers are taken over as docs/nfs.md says', async (namespace) => {
    const cluster = networkCluster();
    const { kubectl, shellEnvironment } = cluster;
    using scratch = new Scratch('adoption');
    const olds = oldVolumes(storageAddress);
    const [convert = '', exchange = '', ...others] = adoptionCommands();
    assert.deepEqual([convert === '', exchange === '', others], [false, false, []]);
    const type = (text: string) =>
      execFileSync('bash', ['-euo', 'pipefail', '-c', text], {
        cwd: scratch.path,
        env: { ...shellEnvironment },
        stdio: ['ignore', 'inherit', 'inherit'],
      });
    for (const { directory, name } of olds) {
      await cluster.onStorage(`mkdir -p /srv/files/export/${directory}`);
      await cluster.onStorage(`echo ${name} >/srv/files/export/${directory}/file`);
    }
    await kubectl.apply(olds.map(oldPersistentVolume));
    await namespace.apply(
      ...olds.map(({ name }) =>
        claim(name, {
          ...{ storageClass: 'of-another-driver', accessMode: 'ReadWriteMany', size: '64Mi' },
          volumeName: name,
        }),
      ),
    );
    await namespace.bound(...olds.map(({ name }) => name));

    type(convert);
    type(exchange);

    await namespace.bound(...olds.map(({ name }) => name));
    const volumes = Object.fromEntries(olds.map(({ name }, index) => [`volume-${index}`, name]));
    await namespace.apply(pod('reader', { node: nodeNames[0], volumes }));
    await namespace.running('reader');
    for (const [index, { name }] of olds.entries()) {
      assert.equal(await namespace.exec('reader', `cat /volume-${index}/file`), name);
      const driver = await kubectl.run(['get', 'pv', name, '-o=jsonpath={.spec.csi.driver}']);
      assert.equal(driver, 'files.holdfast.csi.dev');
    }
    await namespace.remove('pod/reader', ...olds.map(({ name }) => `pvc/${name}`));
    await kubectl.run(['delete', 'pv', ...olds.map(({ name }) => name)]);
    for (const { directory, name } of olds) {
      const kept = await cluster.onStorage(`cat /srv/files/export/${directory}/file`);
      assert.equal(kept.trim(), name);
    }
  });

  networkTest('nfs: a snapshot that is restored, and a clone', async (namespace) => {
    const { kubectl } = networkCluster();
    await kubectl.apply([snapshotClass]);
    try {
      await namespace.apply(claim('shared', asked), pod('writer', { node: near, volumes }));
      await namespace.running('writer');
      await namespace.exec('writer', 'echo before >/shared/file; sync /shared/file');
      await namespace.remove('pod/writer');
      await namespace.apply(snapshot('before', 'shared', 'holdfast-files'));
      await namespace.wait('--for=jsonpath={.status.readyToUse}=true', 'volumesnapshot/before');
      await namespace.apply(
        claim('restored', { ...asked, dataSource: fromSnapshot('before') }),
        claim('clone', { ...asked, dataSource: fromClaim('shared') }),
        pod('reader', { node: near, volumes: { restored: 'restored', clone: 'clone' } }),
      );
      await namespace.running('reader');
      assert.equal(await namespace.exec('reader', 'cat /restored/file /clone/file'), 'before\nbefore');
    } finally {
      await namespace.run(['delete', 'volumesnapshot', '--all']);
      await kubectl.run(['delete', 'volumesnapshotclass', 'holdfast-files']);
    }
  });

  networkTest(
    'nfs: pods notice nothing of a home and a node service that are killed, and both continue',
    async (namespace) => {
      await namespace.apply(claim('shared', asked), pod('first', { node: near, volumes }));
      await namespace.running('first');
      await networkCluster().node(near).run("pkill --signal KILL --full 'holdfast.mjs serve'");
      assert.equal(await namespace.exec('first', 'echo on >/shared/file; sync /shared/file; cat /shared/file'), 'on');
      // The next home takes the lock on the export.
      await namespace.apply(claim('later', asked), pod('second', { node: near, volumes }));
      await namespace.bound('later');
      await namespace.running('second');
      assert.equal(await namespace.exec('second', 'cat /shared/file'), 'on');
    },
  );
});
