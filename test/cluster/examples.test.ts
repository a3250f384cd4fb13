import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { exampleDirectory, exampleFiles, type levels, podsOf } from '../deploy/examples.ts';
import { clusterTest } from './harness/cluster-test.ts';
import { cluster } from './harness/current.ts';
import { makeDebianImage, makePostgresqlImage } from './harness/debian.ts';
import { images } from './harness/images.ts';
import { hasSysResource } from './harness/machine.ts';
import type { Namespace } from './harness/namespace.ts';
import { claim, pod } from './harness/objects.ts';
import { waitFor } from './harness/waiting.ts';

/** The images that the examples name, which a registry would have. */
const named = {
  busybox: 'docker.io/library/busybox:1.37',
  debian: 'docker.io/library/debian:12',
  postgresql: 'docker.io/library/postgres:17',
};

/** What one node with nothing but Kubernetes cannot show, and why. */
const notHere: Readonly<Record<string, string>> = {
  'inline/git.yaml': 'its repository is on the internet: test/grpc has the same with one of this machine',
  'disk.yaml': 'wants a blank disk: test/cluster/devices',
  'lvm.yaml': 'wants a volume group: test/cluster/devices',
};

const applied = new Set<string>();

/** `kubectl apply -f deploy/examples/…`, as it stands there. */
async function apply(namespace: Namespace, ...names: readonly string[]): Promise<void> {
  for (const name of names) {
    await namespace.run(['apply', '--validate=strict', '-f', join(exampleDirectory, name)]);
    applied.add(name);
  }
}

/** Whatever these pods are not allowed, an administrator forbids here. */
async function enforce(namespace: Namespace, level: keyof typeof levels): Promise<void> {
  await namespace.run(['label', 'namespace', namespace.name, `pod-security.kubernetes.io/enforce=${level}`]);
}

/** What a pod prints, as soon as it has printed what is expected: it is Ready as soon as it has begun. */
function said(namespace: Namespace, pod: string, expected: RegExp): Promise<string> {
  return waitFor(`${pod} to say ${expected}`, async () => {
    const text = await namespace.run(['logs', pod]);
    assert.match(text, expected);
    return text;
  });
}

describe('deploy/examples, as they stand there', () => {
  before(async () => {
    const { directory, runtime } = cluster();
    await runtime.ctr(['images', 'tag', images.busybox, named.busybox]);
    const archives = directory.makeDirectory('images');
    await runtime.importImage(await makeDebianImage(archives, named.debian));
    await runtime.importImage(await makePostgresqlImage(archives, named.postgresql));
  });

  clusterTest('a claim and its pod, a clone, a snapshot that is restored, and a larger claim', async (namespace) => {
    await enforce(namespace, 'restricted');
    await apply(namespace, 'claim-and-pod.yaml');
    await namespace.running('notes');
    const starts = await said(namespace, 'notes', /^.*20\d\d\n$/);
    await apply(namespace, 'clone.yaml', 'snapshot-and-restore.yaml');
    await namespace.running('notes-clone', 'notes-restored');
    for (const copy of ['notes-clone', 'notes-restored']) assert.equal(await said(namespace, copy, /\n$/), starts);

    await apply(namespace, 'expand.yaml');
    if (!hasSysResource()) {
      // The kernel does not let the driver grow a mounted ext4 here: it grows with the next pod, after that was told.
      await waitFor('the refusal to be told', async () => {
        assert.match(await namespace.field('pvc/notes', '.status.conditions[*].message'), /CAP_SYS_RESOURCE/);
      });
      await namespace.remove('pod/notes');
      await namespace.apply(...podsOf('claim-and-pod.yaml').map((each) => ({ ...each })));
      await namespace.running('notes');
    }
    await namespace.wait('--for=jsonpath={.status.capacity.storage}=2Gi', 'pvc/notes');
    assert.ok(Number(await namespace.exec('notes', "df -m /notes | awk 'END { print $2 }'")) > 1800);
  });

  clusterTest('a pod with a device', async (namespace) => {
    await enforce(namespace, 'baseline');
    await apply(namespace, 'raw-block.yaml');
    await namespace.running('disk');
    await said(namespace, 'disk', /^.*20\d\d$/m);
  });

  clusterTest('a claim that goes with its pod, and inline scratch space', async (namespace) => {
    await enforce(namespace, 'restricted');
    await apply(namespace, 'generic-ephemeral.yaml', 'inline/scratch.yaml');
    await namespace.running('roomy', 'scratch');
    await namespace.bound('roomy-scratch');
    const mebibytes = (pod: string) => namespace.exec(pod, "df -m /scratch | awk 'END { print $2 }'").then(Number);
    assert.ok((await mebibytes('roomy')) > 900);
    assert.ok((await mebibytes('scratch')) > 400);
  });

  clusterTest('a claim whose attributes are changed', async (namespace) => {
    await enforce(namespace, 'restricted');
    await apply(namespace, 'modify.yaml');
    await namespace.running('ledger');
    const current = (name: string) => `--for=jsonpath={.status.currentVolumeAttributesClassName}=${name}`;
    await namespace.wait(current('holdfast-thin'), 'pvc/ledger');
    // As its comment says.
    const patch = '{"spec": {"volumeAttributesClassName": "holdfast-thick"}}';
    await namespace.run(['patch', 'pvc', 'ledger', '--patch', patch]);
    await namespace.wait(current('holdfast-thick'), 'pvc/ledger');
  });

  clusterTest('PostgreSQL, Debian’s in place of the one on Docker Hub', async (namespace) => {
    await enforce(namespace, 'restricted');
    // As its comment says.
    await namespace.run([
      'create',
      'secret',
      'generic',
      'postgresql',
      `--from-literal=password=${randomBytes(9).toString('hex')}`,
    ]);
    await apply(namespace, 'postgresql.yaml');
    await namespace.wait('--for=jsonpath={.status.readyReplicas}=1', 'statefulset/postgresql');
    const query = (sql: string) =>
      namespace.exec('postgresql-0', `psql --username=postgres --no-align --tuples-only --command="${sql}"`);
    await query('create table kept as select 42 as answer');
    await namespace.run(['scale', 'statefulset/postgresql', '--replicas=0']);
    await namespace.wait('--for=delete', 'pod/postgresql-0');
    await namespace.run(['scale', 'statefulset/postgresql', '--replicas=1']);
    await namespace.wait('--for=jsonpath={.status.readyReplicas}=1', 'statefulset/postgresql');
    assert.equal(await query('select answer from kept'), '42');
  });

  clusterTest('a volume that another cluster knew', async (namespace) => {
    const { kubectl } = cluster();
    // It names a node and a volume of its author's, and the namespace default: here it can be bound, but not used.
    const file = join(exampleDirectory, 'adopt.yaml');
    await kubectl.run(['apply', '--validate=strict', '-f', file]);
    applied.add('adopt.yaml');
    try {
      await kubectl.run(['wait', '--for=jsonpath={.status.phase}=Bound', '--timeout=60s', 'pvc/adopted']);
    } finally {
      await kubectl.run(['delete', '--timeout=60s', '-f', file]);
    }
    assert.equal(await namespace.run(['get', 'pvc', '-o', 'name']), '');
  });

  clusterTest('an encrypted volume, of a key that the provisioner may read', async (namespace) => {
    const { kubectl } = cluster();
    const system = ['--namespace', 'holdfast-system'];
    const key = `--from-literal=key=${randomBytes(32).toString('base64')}`;
    const file = join(exampleDirectory, 'encrypted.yaml');
    // As its comment says.
    await kubectl.run([...system, 'create', 'secret', 'generic', 'volume-key', key]);
    try {
      await kubectl.run(['apply', '--validate=strict', '-f', file]);
      applied.add('encrypted.yaml');
      // The kernel of this machine may lack dm-crypt. Without it a raw block volume is made, which no pod can use:
      // test/cluster/devices has pods that do.
      await namespace.apply(
        claim('raw', { storageClass: 'holdfast-encrypted', volumeMode: 'Block' }),
        pod('raw', { volumes: { raw: { source: 'raw', block: true } } }),
      );
      await namespace.bound('raw');
      await namespace.remove('pod/raw', 'pvc/raw');
    } finally {
      await kubectl.run(['delete', '--timeout=60s', '-f', file]);
      await kubectl.run([...system, 'delete', 'secret', 'volume-key']);
    }
  });

  clusterTest('the files of a claim, copied into a new one', async (namespace) => {
    await enforce(namespace, 'baseline');
    // As the workload that it is for has left it.
    const script = 'mkdir -p /data/a; echo text > /data/a/file; chown 1234:2345 /data/a/file';
    await namespace.apply(claim('data-wiki-0'), pod('wiki', { volumes: { data: 'data-wiki-0' }, script }));
    await namespace.running('wiki');
    await namespace.exec('wiki', 'until [ -s /data/a/file ]; do sleep 1; done');
    await namespace.remove('pod/wiki');
    await apply(namespace, 'copy-claim.yaml');
    await namespace.wait('--for=condition=Complete', 'job/copy-claim');
    assert.match(await namespace.run(['logs', 'job/copy-claim']), /^the copy is the same: 3 names, 1 files$/m);
  });

  describe('with deploy/one-node', () => {
    before(() => cluster().driver.install('one'));
    after(() => cluster().driver.install());

    clusterTest('snapshots of several volumes at one instant', async (namespace) => {
      await enforce(namespace, 'restricted');
      await apply(namespace, 'claim-and-pod.yaml');
      await namespace.running('notes');
      await apply(namespace, 'clone.yaml');
      await namespace.running('notes-clone');
      // As its comment says.
      await namespace.run(['label', 'pvc', 'notes', 'notes-clone', 'set=notes']);
      await apply(namespace, 'group-snapshot.yaml');
      await namespace.wait('--for=jsonpath={.status.readyToUse}=true', 'volumegroupsnapshot/notes-monday');
    });
  });

  test('are all of them', () => {
    assert.deepEqual([...applied, ...Object.keys(notHere)].sort(), exampleFiles);
  });
});
