import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type CommandOutcome, holdfast } from '../support/command.ts';
import { DriverProcess, environmentFor } from '../support/driver.ts';
import { soon } from '../support/eventually.ts';
import { HangingDisk } from '../support/hanging-disk.ts';
import { TestVolume } from '../support/life.ts';
import { Scratch } from '../support/scratch.ts';

/** Only a failure takes this long: the machine may be busy with other tests. */
const patienceMs = 60_000;

/** A command that ends, whatever hangs. */
async function ends(args: readonly string[], environment: Readonly<Record<string, string>>): Promise<CommandOutcome> {
  let outcome: CommandOutcome | undefined;
  const run = async () => {
    outcome = await holdfast(args, environment);
  };
  await soon(run(), `holdfast ${args.join(' ')} hangs`, patienceMs);
  assert.ok(outcome !== undefined);
  return outcome;
}

describe('a pool whose disk hangs for readers too', () => {
  const scratch = new Scratch('cli');
  const disk = new HangingDisk(scratch);
  const config = [
    'pools:',
    `  sick: { directory: ${disk.directory}/pool, sickAfter: 2s }`,
    `  well: { directory: ${scratch.join('well')} }`,
    'defaultPool: well',
    '',
  ].join('\n');
  const environment = environmentFor(scratch, { config });
  let wellId = '';
  let sickId = '';
  let snapshotId = '';

  before(async () => {
    const driver = await DriverProcess.start(scratch, { config });
    using client = driver.connect();
    wellId = await new TestVolume(scratch, 'in-well').create(client);
    sickId = await new TestVolume(scratch, 'in-sick').create(client, { pool: 'sick' });
    const { snapshot } = await client.controller.CreateSnapshot({ source_volume_id: wellId, name: 's' });
    snapshotId = snapshot?.snapshot_id ?? '';
    await driver.stop();
    await disk.hang();
  });
  after(() => {
    disk.mend();
    scratch[Symbol.dispose]();
  });

  const silent = /^holdfast: pool sick: its disk has not answered for 2 s/m;

  test('volumes shows those of the other pools, names the pool, fails, and ends', async () => {
    const { code, stdout, stderr } = await ends(['volumes'], environment);
    assert.match(stdout, new RegExp(`^${wellId} +- +in-well +well `, 'm'));
    assert.ok(!stdout.includes(sickId));
    assert.match(stderr, silent);
    assert.equal(code, 1);
    const one = await ends(['volumes', 'in-well'], environment);
    assert.match(one.stdout, new RegExp(`^ID +${wellId}$`, 'm'));
  });

  test('snapshots does so too', async () => {
    const { code, stdout, stderr } = await ends(['snapshots'], environment);
    assert.match(stdout, new RegExp(`^${snapshotId} `, 'm'));
    assert.match(stderr, silent);
    assert.equal(code, 1);
  });

  test('export does so too', async () => {
    const { code, stdout, stderr } = await ends(['export', '--storage-class', 'local'], environment);
    assert.match(stdout, new RegExp(`volumeHandle: ${wellId}`));
    assert.match(stderr, silent);
    assert.equal(code, 1);
  });

  test('pools shows how full the others are', async () => {
    const { code, stdout, stderr } = await ends(['pools'], environment);
    assert.match(stdout, /^sick +image +- +silent +-/m);
    assert.match(stdout, /^well \(default\) +image +\w+ +open +1 /m);
    assert.match(stderr, silent);
    assert.equal(code, 1);
  });

  test('doctor says what is wrong with the one, and that the others are well', async () => {
    const { code, stdout } = await ends(['doctor'], environment);
    assert.match(stdout, /^fail +pool sick +its disk has not answered for 2 s.*\n +\(directory /m);
    assert.match(stdout, /^ok +pool well +directory /m);
    assert.equal(code, 1);
  });
});
