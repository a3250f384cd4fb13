import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { holdfast } from '../support/command.ts';
import { DriverProcess, driverCommand, environmentFor } from '../support/driver.ts';
import { eventually } from '../support/eventually.ts';
import { TestVolume } from '../support/life.ts';
import { Scratch } from '../support/scratch.ts';

const keepingPool = (scratch: Scratch) => ({
  config: `pools:\n  default:\n    directory: ${scratch.join('pool')}\n    undelete: 24h\n`,
});
const unknownId = `vol-${'a'.repeat(26)}`;

/** A driver with volumes that were made and deleted. */
async function withDeleted(scratch: Scratch, names: readonly string[]) {
  const driver = await DriverProcess.start(scratch, keepingPool(scratch));
  using client = driver.connect();
  const ids: string[] = [];
  for (const name of names) {
    const claim = { 'csi.storage.k8s.io/pvc/namespace': 'shop', 'csi.storage.k8s.io/pvc/name': `data-${name}` };
    ids.push(await new TestVolume(scratch, name).create(client, claim));
  }
  for (const volume_id of ids) await client.controller.DeleteVolume({ volume_id });
  return { driver, environment: environmentFor(scratch, keepingPool(scratch)), ids };
}

describe('holdfast trash', () => {
  test('shows what was deleted, and until when it can be brought back', async () => {
    using scratch = new Scratch('cli');
    const { driver, environment, ids } = await withDeleted(scratch, ['a', 'b']);
    await using _driver = driver;
    const { code, stdout, stderr } = await holdfast(['trash'], environment);
    assert.deepEqual([code, stderr], [0, '']);
    const [titles, ...rows] = stdout.trimEnd().split('\n');
    assert.match(titles ?? '', /^ID +CLAIM +POOL +SIZE +USED +DELETED +PURGED IN$/);
    const cells = rows.map((row) => row.split(/ {2,}/));
    // The one deleted last comes first.
    assert.deepEqual(
      cells.map((row) => row.slice(0, 4)),
      [
        [ids[1], 'shop/data-b', 'default', '64Mi'],
        [ids[0], 'shop/data-a', 'default', '64Mi'],
      ],
    );
    for (const row of cells) assert.match(row.at(-1) ?? '', /^23h$/);

    const { volumes, problems } = JSON.parse((await holdfast(['trash', '--json'], environment)).stdout);
    assert.deepEqual(problems, []);
    assert.equal(volumes[0].id, ids[1]);
    assert.deepEqual(volumes[0].claim, { namespace: 'shop', name: 'data-b' });
    assert.equal(volumes[0].sizeBytes, String(64 << 20));
    assert.equal(Date.parse(volumes[0].purgeAt) - Date.parse(volumes[0].deletedAt), 24 * 3600_000);
  });

  test('restore: the volume keeps its id, its name and its data', async () => {
    using scratch = new Scratch('cli');
    await using driver = await DriverProcess.start(scratch, keepingPool(scratch));
    const environment = environmentFor(scratch, keepingPool(scratch));
    using client = driver.connect();
    const volume = new TestVolume(scratch, 'v');
    const id = await volume.bringUp(client);
    writeFileSync(volume.file('x'), 'kept');
    await volume.tearDown(client, id);
    assert.match((await holdfast(['volumes', id], environment)).stderr, /there is no volume/);

    const restored = await holdfast(['trash', 'restore', id], environment);
    assert.deepEqual([restored.code, restored.stderr], [0, '']);
    assert.match(restored.stdout, new RegExp(`^${id} \\(v\\) is back in pool default\\.$`, 'm'));
    assert.match(restored.stdout, new RegExp(`holdfast export ${id}`));
    assert.match((await holdfast(['volumes', 'v'], environment)).stdout, new RegExp(`^ID +${id}$`, 'm'));
    await volume.stage(client, id);
    await volume.publish(client, id);
    assert.equal(readFileSync(volume.file('x'), 'utf8'), 'kept');
    await volume.tearDown(client, id);

    // Lines are gathered before they are written.
    await eventually(() => {
      const calls = driver.log().filter(({ admin }) => admin === 'restore');
      assert.deepEqual(
        calls.map(({ code, pool, volume_id }) => ({ code, pool, volume_id })),
        [{ code: 'OK', pool: 'default', volume_id: id }],
      );
    });
  });

  test('restore says why not', async () => {
    using scratch = new Scratch('cli');
    const { driver, environment, ids } = await withDeleted(scratch, ['v']);
    await using _driver = driver;
    const refused = async (id: string) => {
      const { code, stdout, stderr } = await holdfast(['trash', 'restore', id], environment);
      assert.deepEqual([code, stdout], [1, '']);
      return stderr;
    };
    assert.equal(
      await refused(unknownId),
      `holdfast: There is no volume ${unknownId} in the trash of this node: see holdfast trash.\n`,
    );
    assert.match(
      await refused('../v\u001b[2J'),
      /^holdfast: there is no volume '\.\.\/v\\u001b\[2J' in the trash of this node/,
    );
    using client = driver.connect();
    assert.equal(await new TestVolume(scratch, 'v').create(client), ids[0]);
    assert.match(await refused(ids[0] ?? ''), /exists: there is nothing to restore/);
  });

  test('restore and purge take a claim or a name', async () => {
    using scratch = new Scratch('cli');
    const { driver, environment, ids } = await withDeleted(scratch, ['a', 'b']);
    await using _driver = driver;
    const purged = await holdfast(['trash', 'purge', 'b'], environment);
    assert.deepEqual([purged.stdout, purged.stderr], [`${ids[1]} is permanently removed.\n`, '']);
    const wrong = await holdfast(['trash', 'restore', 'shop/data-c', '--json'], environment);
    assert.deepEqual([wrong.code, wrong.stdout, JSON.parse(wrong.stderr).code], [1, '', 'NOT_FOUND']);
    assert.match(wrong.stderr, /did you mean 'shop\/data-a'/);
    const restored = await holdfast(['trash', 'restore', 'shop/data-a', '--json'], environment);
    assert.deepEqual(JSON.parse(restored.stdout), { id: ids[0], name: 'a', pool: 'default' });
  });

  test('purge ID removes one for good', async () => {
    using scratch = new Scratch('cli');
    const { driver, environment, ids } = await withDeleted(scratch, ['a', 'b']);
    await using _driver = driver;
    const [a = '', b = ''] = ids;
    const purged = await holdfast(['trash', 'purge', a], environment);
    assert.deepEqual(purged, { code: 0, stdout: `${a} is permanently removed.\n`, stderr: '' });
    const { volumes } = JSON.parse((await holdfast(['trash', '--json'], environment)).stdout);
    assert.deepEqual(
      volumes.map(({ id }: { id: string }) => id),
      [b],
    );
    assert.match((await holdfast(['trash', 'purge', a], environment)).stderr, /There is no volume/);
  });

  test('purge without an ID wants a yes', async () => {
    using scratch = new Scratch('cli');
    const { driver, environment, ids } = await withDeleted(scratch, ['a', 'b']);
    await using _driver = driver;
    const unasked = await holdfast(['trash', 'purge'], environment);
    assert.deepEqual([unasked.code, unasked.stdout], [2, '']);
    assert.match(unasked.stderr, /--yes/);

    const no = await atTerminal(['trash', 'purge'], 'n\n', environment);
    assert.equal(no.code, 1);
    assert.match(no.text, /Purge 2 deleted volumes \(.*\) permanently\? \[y\/N\]/);
    assert.match(no.text, /nothing was purged/);
    const yes = await atTerminal(['trash', 'purge', '--json'], 'y\n', environment);
    assert.equal(yes.code, 0, yes.text);
    for (const id of ids) assert.ok(yes.text.includes(id), yes.text);

    const empty = await holdfast(['trash', 'purge', '--yes'], environment);
    assert.deepEqual(empty, { code: 0, stdout: 'The trash is empty.\n', stderr: '' });
  });

  test('without a driver it says so, and what to do', async () => {
    using scratch = new Scratch('cli');
    const { driver, environment, ids } = await withDeleted(scratch, ['v']);
    // Killed, it leaves its socket.
    await driver.kill();
    const id = ids[0] ?? '';
    for (const args of [['trash'], ['trash', 'restore', id], ['trash', 'purge', '--yes'], ['who', id]]) {
      const { code, stdout, stderr } = await holdfast(args, environment);
      assert.deepEqual([code, stdout], [1, '']);
      assert.match(stderr, /^holdfast: no driver answers at .*\/data\/admin\.sock: start it \(holdfast serve\)/);
      assert.doesNotMatch(stderr, /^ +at /m);
    }
  });

  for (const args of [['trash', 'restore'], ['trash', 'empty'], ['trash', 'purge', 'a', 'b'], ['who']]) {
    test(`'holdfast ${args.join(' ')}' is refused with help`, async () => {
      const { code, stdout, stderr } = await holdfast(args, {});
      assert.deepEqual([code, stdout], [2, '']);
      assert.match(stderr, /Usage: holdfast|holdfast --help/);
    });
  }
});

/** Types into a terminal: script(1) makes one. */
async function atTerminal(
  args: readonly string[],
  typed: string,
  environment: Readonly<Record<string, string>>,
): Promise<{ code: number | null; text: string }> {
  const command = [...driverCommand, ...args].join(' ');
  const child = spawn('script', ['--quiet', '--return', '--command', command, '/dev/null'], { env: environment });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk;
    if (chunk.includes('[y/N]')) child.stdin.write(typed);
  });
  const [code] = await once(child, 'close');
  return { code, text };
}
