import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { parseAllDocuments } from 'yaml';
import { holdfast } from '../support/command.ts';
import { DriverProcess, environmentFor } from '../support/driver.ts';
import { TestVolume } from '../support/life.ts';
import { Scratch } from '../support/scratch.ts';

const claim = (name: string) => ({
  'csi.storage.k8s.io/pvc/namespace': 'shop',
  'csi.storage.k8s.io/pvc/name': name,
  'csi.storage.k8s.io/pv/name': `pv-${name}`,
});

/** A pool that has seen a driver, which runs no more. */
async function leftBehind(scratch: Scratch, names: readonly string[]) {
  const options = { config: `pools:\n  default:\n    directory: ${scratch.join('pool')}\n` };
  await using driver = await DriverProcess.start(scratch, options);
  using client = driver.connect();
  const ids: string[] = [];
  for (const name of names) ids.push(await new TestVolume(scratch, `v-${ids.length}`).create(client, claim(name)));
  return { environment: environmentFor(scratch, options), ids };
}

describe('holdfast export', () => {
  test('prints a PersistentVolume for each volume, without a driver', async () => {
    using scratch = new Scratch('cli');
    const { environment, ids } = await leftBehind(scratch, ['a', 'b']);
    const { code, stdout, stderr } = await holdfast(
      ['export', '--storage-class', 'local', '--reclaim-policy', 'Delete'],
      environment,
    );
    assert.deepEqual([code, stderr], [0, '']);
    const manifests = parseAllDocuments(stdout).map((document) => document.toJS());
    assert.deepEqual(
      manifests.map(({ metadata, spec }) => [metadata.name, spec.csi.volumeHandle, spec.claimRef.name]),
      [
        ['pv-a', ids[0], 'a'],
        ['pv-b', ids[1], 'b'],
      ],
    );
    for (const { apiVersion, kind, spec } of manifests) {
      assert.deepEqual([apiVersion, kind], ['v1', 'PersistentVolume']);
      assert.deepEqual(spec.capacity, { storage: '64Mi' });
      assert.deepEqual([spec.storageClassName, spec.persistentVolumeReclaimPolicy], ['local', 'Delete']);
      assert.equal('uid' in spec.claimRef, false);
    }

    const { items } = JSON.parse((await holdfast(['export', '--json', ids[1] ?? ''], environment)).stdout);
    assert.deepEqual(
      items.map(({ metadata }: { metadata: object }) => metadata),
      [manifests[1].metadata],
    );
  });

  test('of a disk that has come from another node: for the node that it is in now, with its data (docs/guides/move-a-disk.md)', async () => {
    using scratch = new Scratch('cli');
    const pool = (name: string) => `pools:\n  ${name}:\n    directory: ${scratch.join('pool')}\n`;
    const volume = new TestVolume(scratch, 'v');
    let id = '';
    {
      await using driver = await DriverProcess.start(scratch, { config: pool('default') });
      using client = driver.connect();
      id = await volume.create(client, claim('a'));
      await volume.stage(client, id);
      writeFileSync(join(volume.stagingPath, 'file'), 'kept', { flush: true });
      await volume.unstage(client, id);
    }
    // The other node has a data directory of its own, and gives the pool a name that it never had.
    const options = {
      config: pool('moved'),
      environment: { HOLDFAST_NODE_ID: 'node-2', HOLDFAST_DATA: scratch.join('other-data') },
    };
    await using driver = await DriverProcess.start(scratch, options);
    using client = driver.connect();
    const { stdout } = await holdfast(['export', '--storage-class', 'local'], environmentFor(scratch, options));
    const { spec } = parseAllDocuments(stdout)[0]?.toJS() ?? {};
    assert.equal(spec.csi.volumeHandle, id);
    assert.match(JSON.stringify(spec.nodeAffinity), /"topology\.holdfast\.dev\/node".*"node-2"/);
    await volume.stage(client, id);
    assert.equal(readFileSync(join(volume.stagingPath, 'file'), 'utf8'), 'kept');
    await volume.unstage(client, id);
  });

  test('keeps what it is given, and nothing of a name that could break out of its place', async () => {
    using scratch = new Scratch('cli');
    const odd = 'x\n---\nkind: Secret';
    const { environment, ids } = await leftBehind(scratch, [odd]);
    const { code, stdout, stderr } = await holdfast(['export', '--storage-class', 'a: b\n- c'], environment);
    assert.deepEqual([code, stderr], [0, '']);
    const documents = parseAllDocuments(stdout).map((document) => document.toJS());
    assert.equal(documents.length, 1);
    assert.equal(documents[0].metadata.name, 'v-0');
    assert.equal(documents[0].spec.csi.volumeHandle, ids[0]);
    assert.equal(documents[0].spec.storageClassName, 'a: b\n- c');
    assert.equal(documents[0].spec.claimRef, undefined);
  });

  test('leaves out volumes that live no longer than their pod', async () => {
    using scratch = new Scratch('cli');
    const { environment, ids } = await leftBehind(scratch, ['a', 'inline']);
    const path = scratch.join('pool', 'volumes', ids[1] ?? '', 'volume.json');
    const record = JSON.parse(readFileSync(path, 'utf8'));
    writeFileSync(path, JSON.stringify({ ...record, ephemeral: { handle: 'csi-1', digest: 'x' } }));
    assert.match(
      (await holdfast(['volumes', ids[1] ?? ''], environment)).stdout,
      /^Inline +goes with its pod's mount$/m,
    );
    const { items } = JSON.parse((await holdfast(['export', '--json'], environment)).stdout);
    assert.deepEqual(
      items.map(({ metadata }: { metadata: { name: string } }) => metadata.name),
      ['pv-a'],
    );
  });

  test('of one volume, by its id, is whole while another pool cannot be looked into', async () => {
    using scratch = new Scratch('cli');
    const { environment, ids } = await leftBehind(scratch, ['a']);
    const config = scratch.join('two-pools.yaml');
    const other = `  other: { device: ${scratch.join('none')} }`;
    writeFileSync(
      config,
      `defaultPool: default\npools:\n  default: { directory: ${scratch.join('pool')} }\n${other}\n`,
    );
    const withOther = { ...environment, HOLDFAST_CONFIG: config };
    const exportOf = (...words: readonly string[]) =>
      holdfast(['export', ...words, '--storage-class', 'local'], withOther);
    const one = await exportOf(ids[0] ?? '');
    assert.equal(one.code, 0, one.stderr);
    assert.match(one.stdout, new RegExp(`volumeHandle: ${ids[0]}`));
    assert.match(one.stderr, /^holdfast: pool other: /m);
    // Another of its name may lie in the pool that is not there, and a list may lack something.
    for (const words of [['v-0'], []]) assert.equal((await exportOf(...words)).code, 1);
  });

  test('says what no record knows, and refuses what Kubernetes does not have', async () => {
    using scratch = new Scratch('cli');
    const { environment } = await leftBehind(scratch, ['a']);
    const plain = await holdfast(['export'], environment);
    assert.equal(plain.code, 0);
    assert.match(plain.stderr, /--storage-class/);
    assert.equal((await holdfast(['export', '--reclaim-policy', 'Recycle'], environment)).code, 2);
    const missing = await holdfast(['export', 'none'], environment);
    assert.deepEqual([missing.code, missing.stdout], [1, '']);
    assert.match(missing.stderr, /there is no volume 'none' here/);
  });
});
