import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { holdfast } from '../support/command.ts';
import { DriverProcess, environmentFor } from '../support/driver.ts';
import { mountWith, TestVolume } from '../support/life.ts';
import { Scratch } from '../support/scratch.ts';

const directoryPool = (scratch: Scratch) => ({
  config: `pools:\n  default:\n    directory: ${scratch.join('pool')}\n`,
});

describe('holdfast volumes', () => {
  test('lists what there is, with its state from the kernel', async () => {
    using scratch = new Scratch('cli');
    const options = directoryPool(scratch);
    await using driver = await DriverProcess.start(scratch, options);
    using client = driver.connect();
    const volumes = ['detached', 'staged', 'published'].map((name) => new TestVolume(scratch, name));
    const ids: string[] = [];
    for (const volume of volumes) ids.push(await volume.create(client));
    const [, staged, published] = volumes;
    await staged?.stage(client, ids[1] ?? '');
    await published?.stage(client, ids[2] ?? '');
    await published?.publish(client, ids[2] ?? '');

    const { code, stdout, stderr } = await holdfast(['volumes'], environmentFor(scratch, options));
    assert.equal(stderr, '');
    assert.equal(code, 0);
    const [titles, ...rows] = stdout.trimEnd().split('\n');
    assert.match(titles ?? '', /^ID +CLAIM +NAME +POOL +SIZE +USED +CONTENT +SNAPSHOTS +STATE +AGE$/);
    assert.deepEqual(
      rows.map((row) =>
        row
          .split(/ {2,}/)
          .filter((_, column) => column !== 5)
          .slice(0, 8),
      ),
      volumes.map(({ name }, index) => [ids[index], '-', name, 'default', '64Mi', 'ext4', '0', name].map(String)),
    );
    for (const row of rows) assert.match(row, / 64Mi +[0-9.]+(Ki|Mi) +ext4 /);
  });

  test('--json tells programs all of it', async () => {
    using scratch = new Scratch('cli');
    const options = directoryPool(scratch);
    await using driver = await DriverProcess.start(scratch, options);
    using client = driver.connect();
    const volume = new TestVolume(scratch, 'v');
    const id = await volume.bringUp(client);
    const { code, stdout } = await holdfast(['volumes', '--json', id], environmentFor(scratch, options));
    assert.equal(code, 0);
    const { volumes, problems } = JSON.parse(stdout);
    assert.deepEqual(problems, []);
    assert.equal(volumes.length, 1);
    const { devices, ...sight } = volumes[0];
    assert.equal(sight.id, id);
    assert.equal(sight.sizeBytes, String(64 << 20));
    assert.equal(sight.state, 'published');
    assert.deepEqual(sight.stagedAt, [volume.stagingPath]);
    assert.deepEqual(sight.publishedAt, [{ path: volume.targetPath, readonly: false }]);
    assert.match(devices[0].path, /^\/dev\/loop\d+$/);
  });

  for (const content of ['btrfs', 'block'] as const) {
    test(`sees ${content} volumes in use`, async () => {
      using scratch = new Scratch('cli');
      const options = directoryPool(scratch);
      await using driver = await DriverProcess.start(scratch, options);
      using client = driver.connect();
      const capability =
        content === 'block' ? { block: {}, access_mode: { mode: 'SINGLE_NODE_WRITER' as const } } : mountWith('btrfs');
      const volume = new TestVolume(scratch, 'v', capability);
      const { volume: made } = await client.controller.CreateVolume({
        name: 'v',
        capacity_range: { required_bytes: 256n << 20n },
        volume_capabilities: [capability],
      });
      const id = made?.volume_id ?? '';
      await volume.stage(client, id);
      const environment = environmentFor(scratch, options);
      const state = async () =>
        JSON.parse((await holdfast(['volumes', '--json'], environment)).stdout).volumes[0].state;
      assert.equal(await state(), 'staged');
      await volume.publish(client, id);
      assert.equal(await state(), 'published');
      const { stdout } = await holdfast(['volumes', id], environment);
      assert.match(stdout, new RegExp(`^Content +${content}$`, 'm'));
      assert.match(stdout, new RegExp(`^Published at +${volume.targetPath}$`, 'm'));
      await volume.unpublish(client, id);
      assert.equal(await state(), 'staged');
      await volume.publish(client, id, true);
      const readonly = (await holdfast(['volumes', id], environment)).stdout;
      assert.match(readonly, new RegExp(`^Published at +${volume.targetPath} \\(read-only\\)$`, 'm'));
      await volume.unpublish(client, id);
      await volume.unstage(client, id);
      assert.equal(await state(), 'detached');
    });
  }

  test('one volume is found by id and by name, and shown whole', async () => {
    using scratch = new Scratch('cli');
    const options = directoryPool(scratch);
    await using driver = await DriverProcess.start(scratch, options);
    using client = driver.connect();
    const id = await new TestVolume(scratch, 'pvc-1').create(client, {
      'csi.storage.k8s.io/pvc/name': 'data\u001b[2J',
    });
    const environment = environmentFor(scratch, options);
    const byName = await holdfast(['volumes', 'pvc-1'], environment);
    assert.equal(byName.code, 0);
    const byId = await holdfast(['volumes', id], environment);
    const withoutAge = (text: string) => text.replace(/ \(\d+s ago\)/, '');
    assert.equal(withoutAge(byName.stdout), withoutAge(byId.stdout));
    assert.match(byName.stdout, new RegExp(`^ID +${id}$`, 'm'));
    assert.match(byName.stdout, /^Size +64Mi \(67108864 bytes, thin\)$/m);
    assert.match(byName.stdout, /^Parameters +csi\.storage\.k8s\.io\/pvc\/name=data\\u001b\[2J$/m);
    assert.match(byName.stdout, /^State +detached$/m);
  });

  test('a volume is found by its claim, and not among several', async () => {
    using scratch = new Scratch('cli');
    const options = directoryPool(scratch);
    await using driver = await DriverProcess.start(scratch, options);
    using client = driver.connect();
    const claim = { 'csi.storage.k8s.io/pvc/namespace': 'shop', 'csi.storage.k8s.io/pvc/name': 'data' };
    const id = await new TestVolume(scratch, 'pvc-1').create(client, claim);
    const environment = environmentFor(scratch, options);
    assert.match((await holdfast(['volumes'], environment)).stdout, new RegExp(`^${id} {2}shop/data +pvc-1 `, 'm'));
    const one = await holdfast(['volumes', 'shop/data'], environment);
    assert.match(one.stdout, /^Claim +shop\/data$/m);
    assert.match(one.stdout, /^Used +[0-9.]+[KM]i \([0-9]+ bytes\)$/m);
    for (const [wanted, meant] of [
      ['shop/dat', 'shop/data'],
      ['pvc-2', 'pvc-1'],
    ] as const) {
      const { code, stderr } = await holdfast(['volumes', wanted], environment);
      assert.equal(code, 1);
      assert.ok(stderr.includes(`(did you mean '${meant}'?)`), stderr);
    }
    assert.equal((await holdfast(['who', 'shop/data'], environment)).stdout, `Nothing holds ${id}.\n`);
    assert.match(
      (await holdfast(['export', 'shop/data'], environment)).stdout,
      new RegExp(`volumeHandle: ${id}$`, 'm'),
    );

    // The claim was made anew, and what it had before was retained.
    const second = await new TestVolume(scratch, 'pvc-2').create(client, claim);
    for (const command of ['volumes', 'who', 'export']) {
      const { code, stdout, stderr } = await holdfast([command, 'shop/data', '--json'], environment);
      assert.deepEqual([code, stdout], [1, '']);
      assert.deepEqual(JSON.parse(stderr), {
        code: 'FAILED_PRECONDITION',
        message: `name one by its id: 'shop/data' is 2 volumes, ${id} (pvc-1, claim shop/data, pool default), ${second} (pvc-2, claim shop/data, pool default)`,
      });
    }
  });

  test('a volume that is not there is an error', async () => {
    using scratch = new Scratch('cli');
    const options = directoryPool(scratch);
    await (await DriverProcess.start(scratch, options)).stop();
    const { code, stdout, stderr } = await holdfast(['volumes', 'none\u001b[2J'], environmentFor(scratch, options));
    assert.equal(code, 1);
    assert.equal(stdout, '');
    assert.equal(
      stderr,
      "holdfast: there is no volume 'none\\u001b[2J' here (looked in: default), by id, name or namespace/claim\n",
    );
  });

  test('no driver needs to run for a directory', async () => {
    using scratch = new Scratch('cli');
    const options = directoryPool(scratch);
    const driver = await DriverProcess.start(scratch, options);
    using client = driver.connect();
    await new TestVolume(scratch, 'v').create(client);
    await driver.stop();
    const { code, stdout } = await holdfast(['volumes'], environmentFor(scratch, options));
    assert.equal(code, 0);
    assert.match(stdout, /^vol-[a-z2-7]{26} {2}- +v .* detached /m);
  });

  test('a damaged record is named, the others are listed', async () => {
    using scratch = new Scratch('cli');
    const options = directoryPool(scratch);
    const driver = await DriverProcess.start(scratch, options);
    using client = driver.connect();
    const hurt = await new TestVolume(scratch, 'hurt').create(client);
    const well = await new TestVolume(scratch, 'well').create(client);
    await driver.stop();
    writeFileSync(scratch.join('pool', 'volumes', hurt, 'volume.json'), '{');
    const { code, stdout, stderr } = await holdfast(['volumes'], environmentFor(scratch, options));
    assert.equal(code, 1);
    assert.ok(stdout.includes(well) && !stdout.includes(hurt));
    assert.match(stderr, new RegExp(`^holdfast: volume ${hurt} of pool default is damaged: `));
  });

  test('a disk that went away is not an empty list', async () => {
    using scratch = new Scratch('cli');
    const options = directoryPool(scratch);
    await (await DriverProcess.start(scratch, options)).stop();
    rmSync(scratch.join('pool'), { recursive: true });
    const { code, stderr } = await holdfast(['volumes'], environmentFor(scratch, options));
    assert.equal(code, 1);
    assert.match(stderr, /Is its disk mounted\?/);
  });
});
