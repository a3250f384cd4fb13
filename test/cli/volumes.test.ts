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
    assert.match(titles ?? '', /^ID +NAME +POOL +SIZE +CONTENT +SNAPSHOTS +STATE +AGE$/);
    assert.deepEqual(
      rows.map((row) => row.split(/ {2,}/).slice(0, 7)),
      volumes.map(({ name }, index) => [ids[index], name, 'default', '64Mi', 'ext4', '0', name]),
    );
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

  test('a volume that is not there is an error', async () => {
    using scratch = new Scratch('cli');
    const options = directoryPool(scratch);
    await (await DriverProcess.start(scratch, options)).stop();
    const { code, stdout, stderr } = await holdfast(['volumes', 'none\u001b[2J'], environmentFor(scratch, options));
    assert.equal(code, 1);
    assert.equal(stdout, '');
    assert.equal(
      stderr,
      "holdfast: there is no volume with the id or name 'none\\u001b[2J' here (looked in: default)\n",
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
    assert.match(stdout, /^vol-[a-z2-7]{26} {2}v .* detached /m);
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
