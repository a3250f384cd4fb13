import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { buildBundle } from '../../scripts/build.ts';
import { holdfast } from '../support/command.ts';
import { assertNothingLeft, DriverProcess, environmentFor } from '../support/driver.ts';
import { eventually } from '../support/eventually.ts';
import { TestVolume } from '../support/life.ts';
import { findOldestNode, oldestNodeVersion } from '../support/oldest-node.ts';
import { Scratch } from '../support/scratch.ts';

const interpreters = new Map([
  [process.versions.node, () => process.execPath],
  [oldestNodeVersion, findOldestNode],
]);

describe('the bundle', () => {
  for (const [version, find] of interpreters) {
    test(`works on Node ${version}, far from any node_modules`, async () => {
      using scratch = new Scratch('bundle');
      const interpreter = find();
      assert.equal(execFileSync(interpreter, ['--version'], { encoding: 'utf8' }).trim(), `v${version}`);
      const { file } = await buildBundle(scratch.join('dist'));
      const command = [interpreter, file];
      const config = `defaultPool: default\npools: { default: {}, plain: { kind: directory, path: ${scratch.join('plain')} } }\n`;
      const environment = environmentFor(scratch, { config });
      const shown = await holdfast(['--version'], {}, { command });
      assert.deepEqual([shown.code, shown.stderr], [0, '']);
      const doctor = await holdfast(['doctor', '--json'], environment, { command });
      assert.equal(doctor.stderr, '');
      assert.equal(JSON.parse(doctor.stdout).healthy, true, doctor.stdout);

      const driver = await DriverProcess.start(scratch, { command, config });
      using client = driver.connect();
      const volume = new TestVolume(scratch, 'v');
      const id = await volume.bringUp(client);
      writeFileSync(volume.file('x'), 'kept');
      assert.equal(readFileSync(volume.file('x'), 'utf8'), 'kept');
      const list = await holdfast(['volumes'], environment, { command });
      assert.match(list.stdout, new RegExp(`^${id} .* published `, 'm'));
      await volume.tearDown(client, id);
      const directory = new TestVolume(scratch, 'plain', { mount: {}, access_mode: { mode: 'SINGLE_NODE_WRITER' } });
      const volume_id = await directory.create(client, { pool: 'plain' });
      await client.controller.DeleteVolume({ volume_id });
      assert.deepEqual(await driver.stop(), { code: 0, signal: null });
      assert.equal(driver.output().includes('unrecognized flag'), false, driver.output());
      await assertNothingLeft(scratch);
    });
  }

  test('the oldest Node it is tried on is the oldest that package.json allows', () => {
    const { engines } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
    assert.equal(`${engines.node}.0.0`, `>=${oldestNodeVersion}`);
  });

  test('what Node has compiled is kept for the next start, though the driver ends at once', async () => {
    using scratch = new Scratch('bundle');
    const { file } = await buildBundle(scratch.join('dist'));
    const compiled = scratch.join('compiled');
    const environment = { NODE_COMPILE_CACHE: compiled };
    const driver = await DriverProcess.start(scratch, { command: [process.execPath, file], environment });
    await eventually(() => assert.ok(filesBelow(compiled) > 0));
    assert.deepEqual(await driver.stop(), { code: 0, signal: null });
  });

  test('can be made again while a driver runs from it', async () => {
    using scratch = new Scratch('bundle');
    const { file } = await buildBundle(scratch.join('dist'));
    await using driver = await DriverProcess.start(scratch, { command: [process.execPath, file] });
    await buildBundle(scratch.join('dist'));
    using client = driver.connect();
    const volume = new TestVolume(scratch, 'v');
    await volume.tearDown(client, await volume.bringUp(client));
  });

  test('is complete: the program, its native part, the page, the licences, and nothing else', async () => {
    using scratch = new Scratch('bundle');
    mkdirSync(scratch.join('dist'));
    await buildBundle(scratch.join('dist'));
    const names = readdirSync(scratch.join('dist')).sort();
    assert.deepEqual(
      names.filter((name) => !/^koffi-linux-\w+\.node$/.test(name)),
      ['LICENSE', 'THIRD-PARTY-LICENSES', 'holdfast.mjs', 'page'],
    );
    assert.equal(names.length, 5);
    assert.deepEqual(readdirSync(scratch.join('dist', 'page')).sort(), ['index.html', 'page.css', 'page.js']);
    const licences = readFileSync(scratch.join('dist', 'THIRD-PARTY-LICENSES'), 'utf8');
    for (const name of ['@grpc/grpc-js', 'execa', 'koffi', 'preact', 'zod', 'pino'])
      assert.match(licences, new RegExp(`^${name}$`, 'm'));
  });
});

function filesBelow(directory: string): number {
  return readdirSync(directory, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile()).length;
}
