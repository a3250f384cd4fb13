import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { jsonPage, pagePath } from '../../scripts/document-json.ts';
import { problemShape, shapes } from '../../src/cli/output/shapes.ts';
import { holdfast } from '../support/command.ts';
import { DriverProcess, environmentFor } from '../support/driver.ts';
import { mountWith, TestVolume } from '../support/life.ts';
import { Scratch } from '../support/scratch.ts';

/** Nothing is missing, and nothing is there that the page does not have. */
function assertShape(command: keyof typeof shapes, stdout: string): void {
  const printed = JSON.parse(stdout);
  assert.deepEqual(shapes[command].parse(printed), printed, command);
}

interface Free {
  readonly free: boolean;
  readonly reasons: readonly string[];
}

describe('--json', () => {
  test('docs/json.md is what the schemas say', () => {
    assert.equal(readFileSync(pagePath, 'utf8'), jsonPage(), 'make it anew: node scripts/document-json.ts');
  });

  test('every command prints what its schema says', async () => {
    using scratch = new Scratch('cli');
    const config = [
      'pools:',
      `  default: { directory: ${scratch.join('pool')}, undelete: 24h }`,
      '  second: {}',
      `  files: { kind: directory, path: ${scratch.join('files')} }`,
    ];
    const options = { config: `${config.join('\n')}\n` };
    await using driver = await DriverProcess.start(scratch, options);
    using client = driver.connect();
    // One more than the driver has: a disk that is not there.
    writeFileSync(scratch.join('more.yaml'), `${options.config}  broken: { directory: /srv/no-such-disk/pool }\n`);
    const environment = { ...environmentFor(scratch, options), HOLDFAST_CONFIG: scratch.join('more.yaml') };
    const claim = { 'csi.storage.k8s.io/pvc/namespace': 'shop', 'csi.storage.k8s.io/pvc/name': 'data' };
    const volume = new TestVolume(scratch, 'v');
    const id = await volume.create(client, { pool: 'second', ...claim });
    await volume.stage(client, id);
    await volume.publish(client, id);
    const { snapshot } = await client.controller.CreateSnapshot({ source_volume_id: id, name: 's' });
    await client.controller.CreateVolume({
      name: 'copy',
      capacity_range: { required_bytes: 64n << 20n },
      volume_capabilities: [mountWith('ext4')],
      parameters: { pool: 'second' },
      volume_content_source: { snapshot: { snapshot_id: snapshot?.snapshot_id ?? '' } },
    });
    await client.controller.CreateVolume({
      name: 'tree',
      capacity_range: { required_bytes: 64n << 20n },
      volume_capabilities: [mountWith('')],
      parameters: { pool: 'files' },
    });
    const deleted = await new TestVolume(scratch, 'gone').create(client);
    await client.controller.DeleteVolume({ volume_id: deleted });

    const run = async (command: keyof typeof shapes, ...args: string[]) => {
      const { stdout, stderr } = await holdfast([...command.split(' '), '--json', ...args], environment);
      assert.notEqual(stdout, '', `${command}: ${stderr}`);
      assertShape(command, stdout);
      return JSON.parse(stdout);
    };
    const { pools } = await run('pools');
    assert.deepEqual(
      pools.map(({ state }: { state: string }) => state),
      ['open', 'open', 'open', 'broken'],
    );
    const { volumes, problems } = await run('volumes');
    assert.equal(problems.length, 1);
    assert.deepEqual(
      volumes.map(({ name }: { name: string }) => name),
      ['v', 'copy', 'tree'],
    );
    assert.ok(volumes.every(({ usedBytes }: { usedBytes?: string }) => usedBytes !== undefined));
    assert.deepEqual(volumes[0].claim, { namespace: 'shop', name: 'data' });
    assert.equal((await run('snapshots')).snapshots.length, 1);
    // Which disks the machine has, nobody knows.
    assert.ok((await run('disks')).disks.every(({ free, reasons }: Free) => free === (reasons.length === 0)));
    assert.equal((await run('trash')).volumes[0].id, deleted);
    assert.equal((await run('trash restore', deleted)).id, deleted);
    await client.controller.DeleteVolume({ volume_id: deleted });
    assert.deepEqual((await run('trash purge', deleted)).ids, [deleted]);
    assert.equal((await run('who', id)).id, id);
    assert.equal((await run('export')).items.length, 3);
    assert.equal((await run('doctor')).healthy, false);
    const { sections } = await run('config check', scratch.join('more.yaml'));
    assert.deepEqual(
      sections[0].pools.map(({ kind }: { kind: string }) => kind),
      ['image', 'image', 'directory', 'image'],
    );
    await volume.unpublish(client, id);
    await volume.unstage(client, id);
  });

  test('what goes wrong is an object a line, and nothing else', async () => {
    using scratch = new Scratch('cli');
    const environment = environmentFor(scratch);
    for (const [args, code] of [
      [['who', `vol-${'a'.repeat(26)}`], 'UNAVAILABLE'],
      [['trash'], 'UNAVAILABLE'],
      [['volumes', 'none'], 'NOT_FOUND'],
      [['export', 'none'], 'NOT_FOUND'],
    ] as const) {
      const { stdout, stderr } = await holdfast([...args, '--json'], environment);
      assert.equal(stdout, '');
      const problem = problemShape.strict().parse(JSON.parse(stderr));
      assert.equal(problem.code, code);
    }
  });
});
