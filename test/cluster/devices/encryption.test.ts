import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { after, before, describe } from 'node:test';
import { exampleDirectory } from '../../deploy/examples.ts';
import { deviceCluster } from '../harness/devices/current.ts';
import { deviceTest } from '../harness/devices/device-test.ts';
import { storageClass } from '../harness/devices/storage-class.ts';
import { claim, fromSnapshot, type Manifest, pod, snapshot } from '../harness/objects.ts';
import { waitFor } from '../harness/waiting.ts';

const example = join(exampleDirectory, 'encrypted.yaml');
const system = ['--namespace', 'holdfast-system'];
// biome-ignore lint/suspicious/noTemplateCurlyInString: templates of Kubernetes. The Secret has the claim's name, and lies beside it.
const ownSecret = { name: '${pvc.name}', namespace: '${pvc.namespace}' };
const newKey = () => randomBytes(32).toString('base64');

function secret(name: string, stringData: Readonly<Record<string, string>>): Manifest {
  return { apiVersion: 'v1', kind: 'Secret', metadata: { name }, stringData };
}

/** docs/encryption.md: a key for each claim, as the account may read Secrets everywhere. */
const reader = { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'holdfast-test-secrets' };
const access: readonly Manifest[] = [
  {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRole',
    metadata: { name: reader.name },
    rules: [{ apiGroups: [''], resources: ['secrets'], verbs: ['get'] }],
  },
  {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRoleBinding',
    metadata: { name: reader.name },
    roleRef: reader,
    subjects: [{ kind: 'ServiceAccount', name: 'holdfast', namespace: 'holdfast-system' }],
  },
];

describe('encryption, with keys from Secrets', () => {
  before(async () => {
    const { kubectl } = deviceCluster();
    await kubectl.apply(access);
    await kubectl.apply(
      ['fast', 'thin'].map((pool) =>
        storageClass(`encrypted-${pool}`, {
          pool,
          encryption: 'luks2',
          'csi.storage.k8s.io/provisioner-secret-name': ownSecret.name,
          'csi.storage.k8s.io/provisioner-secret-namespace': ownSecret.namespace,
          'csi.storage.k8s.io/node-stage-secret-name': ownSecret.name,
          'csi.storage.k8s.io/node-stage-secret-namespace': ownSecret.namespace,
        }),
      ),
    );
  });
  after(async () => {
    const { kubectl } = deviceCluster();
    await kubectl.run(['delete', 'storageclass', 'encrypted-fast', 'encrypted-thin']);
    await kubectl.run(['delete', 'clusterrole,clusterrolebinding', reader.name]);
  });

  deviceTest('the example, over an image', async (namespace) => {
    const { kubectl, vm } = deviceCluster();
    // As its comment says.
    await kubectl.run([...system, 'create', 'secret', 'generic', 'volume-key', `--from-literal=key=${newKey()}`]);
    try {
      await kubectl.run(['apply', '--validate=strict', '-f', example]);
      await namespace.apply(
        claim('data', { storageClass: 'holdfast-encrypted', size: '128Mi' }),
        pod('writer', { volumes: { data: 'data' } }),
      );
      await namespace.running('writer');
      assert.equal(await namespace.exec('writer', 'echo hidden > /data/file; sync; cat /data/file'), 'hidden');
      assert.match(await vm.run('dmsetup ls --target crypt'), /holdfast/);
      await namespace.remove('pod/writer', 'pvc/data');
    } finally {
      await kubectl.run(['delete', '--timeout=120s', '-f', example]);
      await kubectl.run([...system, 'delete', 'secret', 'volume-key']);
    }
  });

  for (const storageClass of ['encrypted-fast', 'encrypted-thin']) {
    deviceTest(
      `a key for each claim: files and a device of ${storageClass}, growth, another key`,
      async (namespace) => {
        const { vm } = deviceCluster();
        const keys = { data: newKey(), disk: newKey() };
        await namespace.apply(
          ...Object.entries(keys).map(([name, key]) => secret(name, { key })),
          claim('data', { storageClass, size: '128Mi' }),
          claim('disk', { storageClass, size: '64Mi', volumeMode: 'Block' }),
          pod('first', { volumes: { data: 'data', disk: { source: 'disk', block: true } } }),
        );
        await namespace.running('first');
        await namespace.exec(
          'first',
          'echo hidden-words > /data/file; echo hidden-words | dd of=/dev/disk conv=fsync; sync',
        );
        assert.equal(await namespace.exec('first', 'blockdev --getsize64 /dev/disk'), `${64 * 2 ** 20}`);

        const larger = '{"spec":{"resources":{"requests":{"storage":"256Mi"}}}}';
        for (const name of ['data', 'disk']) await namespace.run(['patch', 'pvc', name, '--patch', larger]);
        for (const name of ['data', 'disk']) {
          await namespace.wait('--for=jsonpath={.status.capacity.storage}=256Mi', `pvc/${name}`);
        }
        assert.equal(await namespace.exec('first', 'blockdev --getsize64 /dev/disk'), `${256 * 2 ** 20}`);

        await namespace.remove('pod/first');
        await namespace.apply(
          secret('data', { key: newKey(), previousKey: keys.data }),
          pod('second', { volumes: { data: 'data' } }),
        );
        await namespace.running('second');
        assert.equal(await namespace.exec('second', 'cat /data/file'), 'hidden-words');
        // What lies in the group has no word of it.
        const looks =
          'for each in /dev/mapper/holdfast--*-vol*; do grep --count --text hidden-words "$each" || true; done';
        assert.match(await vm.run(`sync; ${looks}`), /^(0\n)+$/);
      },
    );
  }

  deviceTest('a claim without its Secret, and a pod with a wrong key, are told; then it goes on', async (namespace) => {
    const storageClass = 'encrypted-thin';
    const key = newKey();
    await namespace.apply(claim('data', { storageClass, size: '64Mi' }), pod('first', { volumes: { data: 'data' } }));
    await waitFor('the claim to tell what it lacks', async () => {
      assert.match(await namespace.events('pvc/data'), /Warning ProvisioningFailed: .*secrets "data" not found/);
    });
    await namespace.apply(secret('data', { key }));
    await namespace.running('first');
    await namespace.exec('first', 'echo kept > /data/file; sync');
    await namespace.remove('pod/first');

    await namespace.apply(secret('data', { key: newKey() }), pod('second', { volumes: { data: 'data' } }));
    await waitFor(
      'the pod to tell that the key is wrong',
      async () => {
        const events = await namespace.events('pod/second');
        assert.match(events, /Warning FailedMount: .*key/);
        assert.ok(!events.includes(key));
      },
      240_000,
    );
    await namespace.apply(secret('data', { key }));
    await namespace.running('second');
    assert.equal(await namespace.exec('second', 'cat /data/file'), 'kept');

    // A snapshot opens with the key of its source; that of the new claim is another Secret with the same in it.
    await namespace.apply(snapshot('before', 'data'), secret('restored', { key }));
    await namespace.wait('--for=jsonpath={.status.readyToUse}=true', 'volumesnapshot/before');
    await namespace.apply(
      claim('restored', { storageClass, size: '64Mi', dataSource: fromSnapshot('before') }),
      pod('third', { volumes: { restored: 'restored' } }),
    );
    await namespace.running('third');
    assert.equal(await namespace.exec('third', 'cat /restored/file'), 'kept');
  });
});
