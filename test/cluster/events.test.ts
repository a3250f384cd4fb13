import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mountsBelow } from '../support/left-behind.ts';
import { longestMessageCharacters, quotesOf } from '../support/troubleshooting.ts';
import { clusterTest } from './harness/cluster-test.ts';
import { hasSysResource } from './harness/machine.ts';
import type { Namespace } from './harness/namespace.ts';
import { type ClaimPlan, claim, type Manifest, pod, snapshot } from './harness/objects.ts';
import { waitFor } from './harness/waiting.ts';

/*
 * What a user sees of a refusal in `kubectl describe`: the driver's own sentence, whole, short, and on the page for those
 * who look for it, docs/troubleshooting.md.
 */

/** Waits until `kubectl describe` shows a sentence of the driver that has these words. */
async function tells(namespace: Namespace, object: string, words: RegExp): Promise<void> {
  const sentence = await waitFor(`kubectl describe ${object} to tell`, async () => {
    const shown = await namespace.run(['describe', object]);
    const found = driversWords(shown).find((own) => words.test(own));
    assert.ok(found !== undefined, shown);
    return found;
  });
  assert.ok(sentence.length <= longestMessageCharacters, `${sentence.length} characters: ${sentence}`);
  assert.equal(quotesOf(sentence).length, 1, `docs/troubleshooting.md does not quote: ${sentence}`);
}

/** The driver's sentences; external-snapshotter puts them in quotation marks. */
function driversWords(shown: string): string[] {
  return [...shown.matchAll(/ desc = (.*)$/gm)].map(([, own = '']) =>
    own.trim().replaceAll('\\"', '"').replace(/"$/, ''),
  );
}

/** A class of ours with something wrong, for as long as the test. */
async function makeClass(namespace: Namespace, kind: string, changes: Readonly<Record<string, unknown>>) {
  const name = `${namespace.name}-class`;
  await namespace.apply({
    apiVersion: `${kind === 'StorageClass' ? '' : 'snapshot.'}storage.k8s.io/v1`,
    kind,
    metadata: { name },
    ...changes,
  });
  return { name, [Symbol.asyncDispose]: () => namespace.remove(`${kind}/${name}`) };
}

function makeStorageClass(namespace: Namespace, changes: Readonly<Record<string, unknown>>) {
  const usual = { provisioner: 'holdfast.csi.dev', volumeBindingMode: 'WaitForFirstConsumer' };
  return makeClass(namespace, 'StorageClass', { ...usual, ...changes });
}

function podWithClaim(plan: ClaimPlan): Manifest[] {
  return [claim('data', plan), pod('user', { volumes: { data: 'data' } })];
}

for (const [what, parameters, words] of [
  ['a filesystem that there is not', { 'csi.storage.k8s.io/fstype': 'zfs' }, /^fs_type 'zfs' is not supported/],
  ['a mistyped parameter', { provisionning: 'thick' }, /^Unknown parameter "provisionning"; known are .*provisioning/],
  ['a value that cannot be', { provisioning: 'fat' }, /^Parameter provisioning is "fat"; it can be thin or thick/],
  ['an option for mkfs that is not allowed', { mkfsOptions: '-d /etc' }, /^mkfsOptions: '-d' cannot be used for ext4/],
] as const) {
  clusterTest(`a class with ${what}: the claim says so`, async (namespace) => {
    await using broken = await makeStorageClass(namespace, { parameters });
    await namespace.apply(...podWithClaim({ storageClass: broken.name }));
    await tells(namespace, 'pvc/data', words);
  });
}

clusterTest('a claim for several nodes: it says so', async (namespace) => {
  await namespace.apply(...podWithClaim({ accessMode: 'ReadWriteMany' }));
  await tells(namespace, 'pvc/data', /^access_mode .* ask for ReadWriteOnce\.$/);
});

clusterTest('a class with a mount option that there is not: the pod says so', async (namespace) => {
  await using broken = await makeStorageClass(namespace, { mountOptions: ['noexecc'] });
  await namespace.apply(...podWithClaim({ storageClass: broken.name }));
  await tells(namespace, 'pod/user', /^volume vol-\S+: mount_flags has an option .*: correct mountOptions\.$/);
});

clusterTest(
  'a class with a pool that no node has: the scheduler finds no room, as the page says',
  async (namespace) => {
    await using broken = await makeStorageClass(namespace, { parameters: { pool: 'fast' } });
    await namespace.apply(...podWithClaim({ storageClass: broken.name }));
    await waitFor('the pod to tell', async () => {
      assert.match(await namespace.run(['describe', 'pod/user']), /did not have enough free storage/);
    });
  },
);

clusterTest('a claim grows beyond its pool: it says so', async (namespace) => {
  await namespace.apply(...podWithClaim({ storageClass: 'holdfast-xfs' }));
  await namespace.running('user');
  await ask(namespace, '1Ti');
  await tells(namespace, 'pvc/data', /^pool default cannot provision .* bytes .*, only .*: delete volumes or give/);
});

clusterTest('ext4 that cannot grow while mounted: the claim says so, and what to do', async (namespace) => {
  await namespace.apply(...podWithClaim({}));
  await namespace.running('user');
  await ask(namespace, '600Mi');
  if (hasSysResource()) {
    await namespace.wait('--for=jsonpath={.status.capacity.storage}=600Mi', 'pvc/data');
    return;
  }
  await tells(namespace, 'pvc/data', /^volume vol-\S+ has grown, .* CAP_SYS_RESOURCE\. It grows when its pods/);
});

clusterTest('an inline volume with a mistyped attribute: the pod says so', async (namespace) => {
  const source = { csi: { driver: 'holdfast.csi.dev', volumeAttributes: { capacity: '1Gi' } } };
  await namespace.apply(pod('user', { volumes: { scratch: { source } } }));
  await tells(namespace, 'pod/user', /^Unknown volume attribute "capacity"; known are .*size/);
});

clusterTest('a class of snapshots with a parameter: the snapshot says so', async (namespace) => {
  await using broken = await makeClass(namespace, 'VolumeSnapshotClass', {
    driver: 'holdfast.csi.dev',
    deletionPolicy: 'Delete',
    parameters: { retention: '7d' },
  });
  await namespace.apply(...podWithClaim({}));
  await namespace.running('user');
  await namespace.apply(snapshot('cut', 'data', broken.name));
  await tells(namespace, 'volumesnapshot/cut', /^Unknown parameter "retention"; there are none/);
});

clusterTest(
  'a process keeps a volume whose pod and claim were deleted by force: the volume says so',
  async (namespace) => {
    await namespace.apply(...podWithClaim({}));
    await namespace.running('user');
    const { name } = await namespace.volumeOf('data');
    const target = mountsBelow('/var/lib/kubelet').find((path) => path.endsWith(`/${name}/mount`));
    assert.ok(target !== undefined);
    const user = spawn('sleep', ['600'], { cwd: target, stdio: 'ignore' });
    await once(user, 'spawn');
    try {
      await namespace.run(['delete', '--force', '--grace-period=0', 'pod/user', 'pvc/data']);
      await tells(
        namespace,
        `pv/${name}`,
        /^volume vol-\S+ is in use through .*; end that first \(see holdfast who\)\.$/,
      );
    } finally {
      user.kill();
    }
  },
);

/** As a user asks for more. */
async function ask(namespace: Namespace, size: string): Promise<void> {
  const patch = { spec: { resources: { requests: { storage: size } } } };
  await namespace.run(['patch', 'pvc/data', '--patch', JSON.stringify(patch)]);
}
