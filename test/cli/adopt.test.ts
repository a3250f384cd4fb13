import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { parseAllDocuments } from 'yaml';
import { holdfast } from '../support/command.ts';
import { DriverProcess, environmentFor } from '../support/driver.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';

const directoryPool = (scratch: Scratch) => ({
  config: [
    'defaultPool: plain',
    'pools:',
    `  plain: { kind: directory, path: ${scratch.join('pool')} }`,
    `  images: { directory: ${scratch.join('images')} }`,
    '',
  ].join('\n'),
  environment: { HOLDFAST_NODE_ID: 'node-1' },
});

/** As a hostPath volume, or one of local-path-provisioner, has left it. */
function legacyDirectory(scratch: Scratch): string {
  const path = scratch.join('pvc-1_shop_data-db-0');
  mkdirSync(path);
  writeFileSync(join(path, 'table'), 'rows');
  return path;
}

describe('holdfast adopt and release', () => {
  test('a directory becomes a volume, whose PersistentVolume is printed, and a directory again', async () => {
    using scratch = new Scratch('cli');
    await using driver = await DriverProcess.start(scratch, directoryPool(scratch));
    const environment = environmentFor(scratch, directoryPool(scratch));
    const path = legacyDirectory(scratch);
    const { ino } = statSync(path);
    const claim = ['--pool', 'plain', '--claim', 'shop/data-db-0'];
    const wishes = ['--size', '10Mi', '--class', 'local-path', '--retain'];
    const adopted = await holdfast(['adopt', `${path}/`, ...claim, ...wishes], environment);
    assert.deepEqual([adopted.code, adopted.stderr], [0, '']);
    const [manifest] = parseAllDocuments(adopted.stdout).map((document) => document.toJS());
    const { spec } = manifest;
    const id: string = spec.csi.volumeHandle;
    assert.equal(manifest.metadata.name, 'adopted.shop.data-db-0');
    assert.deepEqual(spec, {
      capacity: { storage: '10Mi' },
      accessModes: ['ReadWriteOnce'],
      volumeMode: 'Filesystem',
      persistentVolumeReclaimPolicy: 'Retain',
      storageClassName: 'local-path',
      claimRef: { apiVersion: 'v1', kind: 'PersistentVolumeClaim', namespace: 'shop', name: 'data-db-0' },
      csi: { driver: 'holdfast.csi.dev', volumeHandle: id },
      nodeAffinity: {
        required: {
          nodeSelectorTerms: [
            { matchExpressions: [{ key: 'topology.holdfast.dev/node', operator: 'In', values: ['node-1'] }] },
          ],
        },
      },
    });
    assert.match(
      adopted.stdout,
      new RegExp(`^# ${path} is volume ${id} of pool plain now\\. Undo it: holdfast release ${id}$`, 'm'),
    );
    assert.ok(!existsSync(path));
    assert.equal(statSync(scratch.join('pool', 'volumes', id, 'data')).ino, ino);
    assert.match((await holdfast(['volumes', id], environment)).stdout, new RegExp(`^Adopted from +${path}$`, 'm'));
    // Whoever was not told asks again, and export says the same later.
    const again = await holdfast(['adopt', path, ...claim, ...wishes], environment);
    assert.deepEqual(again, { ...adopted, stdout: adopted.stdout });
    const exported = await holdfast(['export', id, '--storage-class', 'local-path'], environment);
    assert.ok(adopted.stdout.endsWith(exported.stdout));

    const released = await holdfast(['release', id], environment);
    assert.deepEqual(released, {
      code: 0,
      stdout: `${id} is no volume any more: its data lies at ${path}.\n`,
      stderr: '',
    });
    assert.deepEqual([statSync(path).ino, readFileSync(join(path, 'table'), 'utf8')], [ino, 'rows']);
    // Lines are gathered before they are written.
    await eventually(() => {
      const lines = driver.log().filter(({ admin }) => admin === 'adopt' || admin === 'release');
      assert.deepEqual(
        lines.map(({ admin, code, pool, volume_id }) => [admin, code, pool, volume_id]),
        [
          ['adopt', 'OK', 'plain', id],
          ['adopt', 'OK', 'plain', id],
          ['release', 'OK', 'plain', id],
        ],
      );
    });
  });

  test('without --retain the volume goes with its claim; --json prints a list; --to releases elsewhere', async () => {
    using scratch = new Scratch('cli');
    await using _driver = await DriverProcess.start(scratch, directoryPool(scratch));
    const environment = environmentFor(scratch, directoryPool(scratch));
    const path = legacyDirectory(scratch);
    const { code, stdout, stderr } = await holdfast(
      ['adopt', path, '--pool', 'plain', '--claim', 'shop/db', '--name', 'mine', '--json'],
      environment,
    );
    assert.equal(code, 0, stderr);
    assert.match(stderr, /--storage-class/);
    const [{ metadata, spec }] = JSON.parse(stdout).items;
    assert.deepEqual(
      [metadata.name, spec.persistentVolumeReclaimPolicy, spec.capacity.storage],
      ['mine', 'Delete', '1Gi'],
    );
    const to = scratch.join('elsewhere');
    const released = await holdfast(['release', spec.csi.volumeHandle, '--to', to, '--json'], environment);
    assert.deepEqual(JSON.parse(released.stdout), { id: spec.csi.volumeHandle, pool: 'plain', path: to });
    assert.equal(readFileSync(join(to, 'table'), 'utf8'), 'rows');
  });

  test('says why not', async () => {
    using scratch = new Scratch('cli');
    await using _driver = await DriverProcess.start(scratch, directoryPool(scratch));
    const environment = environmentFor(scratch, directoryPool(scratch));
    const path = legacyDirectory(scratch);
    const refused = async (expectedCode: number, words: RegExp, ...args: string[]) => {
      const { code, stdout, stderr } = await holdfast(args, environment);
      assert.deepEqual([code, stdout], [expectedCode, ''], stderr);
      assert.match(stderr, words);
    };
    const claim = ['--claim', 'shop/db'];
    await refused(2, /is no claim: write NAMESPACE\/NAME/, 'adopt', path, '--pool', 'plain', '--claim', 'db');
    await refused(2, /is not a size/, 'adopt', path, '--pool', 'plain', ...claim, '--size', 'large');
    await refused(2, /required option '--pool/, 'adopt', path, ...claim);
    await refused(1, /Kubernetes allows no such claim/, 'adopt', path, '--pool', 'plain', '--claim', 'shop/DB');
    await refused(1, /There is no pool 'fast'/, 'adopt', path, '--pool', 'fast', ...claim);
    const relative =
      /'vg0\/data' must be an absolute path: \/dev\/GROUP\/NAME, \/dev\/disk\/by-id\/…, or a directory\b/;
    await refused(1, relative, 'adopt', 'vg0/data', '--pool', 'plain', ...claim);
    await refused(1, /pool images \(image\) makes its volumes itself/, 'adopt', path, '--pool', 'images', ...claim);
    await refused(1, /There is no .*\/none/, 'adopt', scratch.join('none'), '--pool', 'plain', ...claim);
    await refused(1, /there is no volume '\.\.\/x' here/, 'release', '../x');
    await refused(1, /[Tt]here is no volume/, 'release', `vol-${'a'.repeat(26)}`);
    const first = await holdfast(['adopt', path, '--pool', 'plain', ...claim, '--class', 'x'], environment);
    assert.equal(first.code, 0, first.stderr);
    mkdirSync(`${path}-other`);
    await refused(
      1,
      /has the name "adopted\.shop\.db" already, adopted from /,
      'adopt',
      `${path}-other`,
      '--pool',
      'plain',
      ...claim,
    );
    assert.ok(existsSync(`${path}-other`));
    const taken = /is volume vol-\w+ already \(claim shop\/db\)\. Undo it: holdfast release vol-/;
    await refused(1, taken, 'adopt', path, '--pool', 'plain', '--claim', 'shop/other');
  });
});
