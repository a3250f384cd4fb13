import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { shapes } from '../../src/cli/output/shapes.ts';
import { holdfast } from '../support/command.ts';
import { DriverProcess, environmentFor } from '../support/driver.ts';
import { mountWith, TestVolume } from '../support/life.ts';
import { Scratch } from '../support/scratch.ts';

test('holdfast snapshots and volumes show what was cut from what', async () => {
  using scratch = new Scratch('cli');
  const options = {
    config: `pools:\n  default:\n    directory: ${scratch.join('pool')}\n    undelete: 7d\n`,
  };
  await using driver = await DriverProcess.start(scratch, options);
  const environment = environmentFor(scratch, options);
  using client = driver.connect();
  const source_volume_id = await new TestVolume(scratch, 'v').create(client, { provisioning: 'thick' });
  const { snapshot } = await client.controller.CreateSnapshot({ source_volume_id, name: 'before the upgrade' });
  const snapshotId = snapshot?.snapshot_id ?? '';
  const { volume: copy } = await client.controller.CreateVolume({
    name: 'restored',
    volume_capabilities: [mountWith('ext4')],
    volume_content_source: { snapshot: { snapshot_id: snapshotId } },
    mutable_parameters: { undelete: '0' },
  });

  const table = await holdfast(['snapshots'], environment);
  assert.deepEqual([table.code, table.stderr], [0, '']);
  const [titles, row = ''] = table.stdout.split('\n');
  assert.match(titles ?? '', /^ID +NAME +POOL +SOURCE +SIZE +GROUP +KEY +AGE$/);
  assert.deepEqual(row.split(/ {2,}/).slice(0, 7), [
    snapshotId,
    'before the upgrade',
    'default',
    source_volume_id,
    '64Mi',
    '-',
    '-',
  ]);
  const { snapshots } = JSON.parse((await holdfast(['snapshots', '--json'], environment)).stdout);
  assert.equal(snapshots[0].sourceId, source_volume_id);

  const source = (await holdfast(['volumes', source_volume_id], environment)).stdout;
  assert.match(source, new RegExp(`^Snapshots +${snapshotId} \\(before the upgrade, \\d+s ago\\)$`, 'm'));
  assert.match(source, /^Size .*thick\)$/m);
  assert.match(source, /^Undelete +for 7d$/m);
  const restored = (await holdfast(['volumes', copy?.volume_id ?? ''], environment)).stdout;
  assert.match(restored, new RegExp(`^Source +snapshot ${snapshotId}$`, 'm'));
  assert.match(restored, /^Undelete +no: deleted is gone$/m);
  assert.match(restored, /^Parameters +undelete=0$/m);
  const { volumes } = JSON.parse((await holdfast(['volumes', '--json'], environment)).stdout);
  assert.deepEqual(
    volumes.map(({ name, snapshots: cut }: { name: string; snapshots: object[] }) => [name, cut.length]),
    [
      ['v', 1],
      ['restored', 0],
    ],
  );
});

test('X01: holdfast snapshots and volumes name the key that each of them needs', async () => {
  using scratch = new Scratch('cli');
  const pool = scratch.join('pool');
  const options = { config: `pools: { default: { directory: ${pool} } }\n` };
  const environment = environmentFor(scratch, options);
  let id = '';
  let snapshotId = '';
  {
    await using driver = await DriverProcess.start(scratch, options);
    using client = driver.connect();
    id = await new TestVolume(scratch, 'v').create(client);
    const { snapshot } = await client.controller.CreateSnapshot({ source_volume_id: id, name: 's' });
    snapshotId = snapshot?.snapshot_id ?? '';
  }
  // As they are where the kernel has dm-crypt; what their images hold, no command looks at.
  const encrypt = (path: string, keyId: string) => {
    const record = JSON.parse(readFileSync(path, 'utf8'));
    writeFileSync(path, JSON.stringify({ ...record, encryption: { type: 'luks2', headerBytes: 16 << 20, keyId } }));
  };
  encrypt(join(pool, 'volumes', id, 'volume.json'), 'key-new');
  encrypt(join(pool, 'snapshots', snapshotId, 'snapshot.json'), 'key-old');

  assert.match((await holdfast(['snapshots'], environment)).stdout, / key-old +[0-9]+s$/m);
  const shown = (await holdfast(['volumes', id], environment)).stdout;
  assert.match(shown, /^Encryption +luks2, opens with key-new$/m);
  assert.match(shown, /^Snapshots +snap-.* \(s, [0-9]+s ago, luks2, opens with key-old\)$/m);
  for (const command of ['snapshots', 'volumes'] as const) {
    const printed = JSON.parse((await holdfast([command, '--json'], environment)).stdout);
    assert.deepEqual(shapes[command].parse(printed), printed);
    assert.match(JSON.stringify(printed), /"encryption":{"type":"luks2","headerBytes":16777216,"keyId":"key-/);
  }
});
