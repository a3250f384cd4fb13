import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { holdfast } from '../support/command.ts';
import { DriverProcess, environmentFor } from '../support/driver.ts';
import { mountWith, TestVolume } from '../support/life.ts';
import { blockCapability } from '../support/node-volume.ts';
import { Scratch } from '../support/scratch.ts';

describe('holdfast pools', () => {
  test('shows each pool, its space and who runs it', async () => {
    using scratch = new Scratch('cli');
    const options = {
      config: `pools:\n  a: { directory: ${scratch.join('a')} }\n  b: { file: ${scratch.join('b.img')}, size: 1Gi }\ndefaultPool: b\n`,
    };
    await using driver = await DriverProcess.start(scratch, options);
    using client = driver.connect();
    // Of a fresh clone of a template the driver reads no map: it counts as if it owned nothing, until it is written to.
    await new TestVolume(scratch, 'v', blockCapability()).create(client);
    const environment = environmentFor(scratch, options);
    const { code, stdout, stderr } = await holdfast(['pools'], environment);
    assert.equal(stderr, '');
    assert.equal(code, 0);
    const [titles, a, b] = stdout.split('\n').map((line) => line.split(/ {2,}/));
    assert.equal(
      titles?.join(' '),
      'NAME KIND CLONES STATE VOLUMES SIZE PROVISIONED USED SNAPSHOTS AVAILABLE FREE DRIVER LOCATION',
    );
    assert.deepEqual(
      [a?.[0], a?.[1], a?.[3], a?.[4], a?.at(-1)],
      ['a', 'image', 'open', '0', `directory ${scratch.join('a')}`],
    );
    assert.deepEqual([b?.[0], b?.[2], b?.[3], b?.[4], b?.[6]], ['b (default)', 'reflink', 'open', '1', '64Mi']);
    assert.equal(b?.at(-2), `pid ${driver.pid}`);

    const { pools } = JSON.parse((await holdfast(['pools', '--json'], environment)).stdout);
    assert.deepEqual(
      pools.map(({ name, state, volumes }: Record<string, unknown>) => ({ name, state, volumes })),
      [
        { name: 'a', state: 'open', volumes: 0 },
        { name: 'b', state: 'open', volumes: 1 },
      ],
    );
    assert.equal(pools[1].capacity.provisionedBytes, String(64 << 20));
    assert.equal(pools[1].drivers[0].pid, driver.pid);
    // It has XFS, which shares blocks and keeps them where they are.
    assert.deepEqual([pools[1].traits.snapshots, pools[1].traits.changedBlocks], ['reflink', 'delta']);
    assert.equal(pools[1].traits.block, true);
    const { available_capacity } = await client.controller.GetCapacity({ parameters: { pool: 'b' } });
    // GetCapacity answers in whole blocks.
    const shown = BigInt(pools[1].capacity.availableBytes);
    assert.equal(shown - (shown % 4096n), available_capacity);
  });

  test('a pool of directories is shown as what it is', async () => {
    using scratch = new Scratch('cli');
    const config = `pools:\n  plain: { kind: directory, path: ${scratch.join('plain')} }\n`;
    await using _driver = await DriverProcess.start(scratch, { config });
    using client = _driver.connect();
    await new TestVolume(scratch, 'v', mountWith('')).create(client);
    const environment = environmentFor(scratch, { config });
    const { code, stdout, stderr } = await holdfast(['pools'], environment);
    assert.deepEqual([code, stderr], [0, '']);
    const [, row] = stdout.split('\n').map((line) => line.split(/ {2,}/));
    assert.deepEqual(
      [row?.[0], row?.[1], row?.[3], row?.[4], row?.[6], row?.at(-1)],
      ['plain (default)', 'directory', 'open', '1', '64Mi', `directory ${scratch.join('plain')}`],
    );
    const [pool] = JSON.parse((await holdfast(['pools', '--json'], environment)).stdout).pools;
    const { block, directories, filesystems, provisioning } = pool.traits;
    assert.deepEqual(
      { block, directories, filesystems, provisioning },
      {
        ...{ block: false, directories: true, filesystems: [], provisioning: ['thin'] },
      },
    );
  });

  test('a pool that was never made is no error', async () => {
    using scratch = new Scratch('cli');
    const { code, stdout, stderr } = await holdfast(['pools'], environmentFor(scratch));
    assert.equal(code, 0);
    assert.match(stdout, /^default \(default\) +image +- +absent +- /m);
    assert.match(stderr, /the driver makes it at its first start/);
  });

  test('looking changes nothing', async () => {
    using scratch = new Scratch('cli');
    for (const command of ['pools', 'volumes', 'snapshots', 'export', 'trash', 'doctor'])
      await holdfast([command], environmentFor(scratch));
    const { stdout } = await holdfast(['pools', '--json'], environmentFor(scratch));
    assert.equal(JSON.parse(stdout).pools[0].state, 'absent');
  });
});
