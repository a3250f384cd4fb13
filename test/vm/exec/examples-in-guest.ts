/** Runs in the virtual machine: the examples of programs, with Samba and nbdkit. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { copyFileSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { ContextHarness } from '../../support/context-harness.ts';
import { eventually } from '../../support/eventually.ts';
import { blockCapability, mountCapability } from '../../support/node-volume.ts';
import { openExecHarness, ProgramDirectory } from '../../support/programs.ts';

const directory = new ProgramDirectory();
let harness: ContextHarness;
const project = new URL('../../../', import.meta.url);
const script = fileURLToPath(new URL('test/vm/exec/servers.sh', project));
const servers = (...words: string[]) => execFileSync('sh', [script, ...words], { encoding: 'utf8' });
const lines: string[] = [];
const write = (fields: Record<string, unknown>, message: string) => lines.push(`${JSON.stringify(fields)} ${message}`);

function example(name: string): string {
  const path = join(directory.path, name);
  copyFileSync(fileURLToPath(new URL(`deploy/examples/exec/${name}`, project)), path);
  return path;
}

before(() => {
  servers('samba');
  servers('nbdkit');
});
beforeEach(async () => {
  harness = await openExecHarness(
    [
      { name: 'cifs', path: example('cifs'), protocol: 'json', timeoutMs: 60_000 },
      { name: 'nbd', path: example('nbd'), protocol: 'json', presents: 'device', timeoutMs: 60_000 },
    ],
    { log: { info: write, warn: write, error: write } },
  );
});
afterEach(() => harness[Symbol.asyncDispose]());
after(() => directory[Symbol.dispose]());

function nothingIsLeft(): void {
  assert.deepEqual([harness.mounts(), harness.notes()], [[], []]);
  assert.deepEqual(readdirSync(harness.scratch.join('data', 'exec')), ['locks']);
  assert.doesNotMatch(lines.join('\n'), /geheim/);
}

describe('an SMB share', () => {
  const volume_context = { kind: 'exec', program: 'cifs', 'options.share': '//127.0.0.1/share' };
  // A comma in it would end an option of mount.cifs.
  const secrets = { username: 'root', password: 'geheim,1' };
  const shared = mountCapability('MULTI_NODE_MULTI_WRITER');

  test('is mounted, written to, published twice, and let go, also by a driver that starts in between', async () => {
    const volume = harness.volume('share', shared);
    await volume.stage({ volume_context, secrets });
    await volume.stage({ volume_context, secrets });
    await volume.publish({ volume_context });
    await volume.publish({ volume_context, target_path: join(volume.pod, 'second') });
    writeFileSync(join(volume.target, 'file'), 'data');
    assert.equal(readFileSync('/target/share/file', 'utf8'), 'data');
    assert.match(readFileSync('/proc/self/mountinfo', 'utf8'), / - cifs \/\/127\.0\.0\.1\/share /);
    assert.equal((await volume.stats()).volume_condition?.abnormal, false);
    await harness.restart();
    await volume.unpublish(join(volume.pod, 'second'));
    await volume.down();
    nothingIsLeft();
  });

  test('of which two volumes are two directories', async () => {
    const [one, other] = [harness.volume('one', shared), harness.volume('other', shared)];
    const inside = { ...volume_context, 'options.share': '//127.0.0.1/share/inside' };
    await one.stage({ volume_context, secrets });
    await other.stage({ volume_context: inside, secrets });
    writeFileSync(join(other.staging, 'below'), 'data');
    assert.equal(readFileSync(join(one.staging, 'inside', 'below'), 'utf8'), 'data');
    await one.unstage();
    assert.equal(readFileSync(join(other.staging, 'below'), 'utf8'), 'data');
    await other.unstage();
    nothingIsLeft();
  });

  test('is refused by its server in words, without the password', async () => {
    const wrong = { username: 'root', password: 'geheim,2' };
    const staging = harness.volume('share', shared).stage({ volume_context, secrets: wrong });
    await assert.rejects(staging, (error) => {
      assert.match(String(error), /program cifs failed in stage: mount error\(13\): Permission denied/);
      assert.doesNotMatch(String(error), /geheim/);
      return true;
    });
    nothingIsLeft();
  });
});

describe('an export of nbdkit', () => {
  const volume_context = { kind: 'exec', program: 'nbd', 'options.address': '127.0.0.1' };
  const connected = () =>
    readdirSync('/sys/block').filter(
      (name) => /^nbd\d+$/.test(name) && readFileSync(`/sys/block/${name}/size`, 'utf8') !== '0\n',
    );

  test('is attached, mounted, and let go, also by a driver that starts in between', async () => {
    const volume = harness.volume('disk', mountCapability('SINGLE_NODE_WRITER', [], 'xfs'));
    await volume.stage({ volume_context });
    await volume.publish({ volume_context });
    writeFileSync(join(volume.target, 'file'), 'data');
    assert.equal(connected().length, 1);
    await harness.restart();
    await volume.stage({ volume_context });
    assert.equal((await volume.stats()).volume_condition?.abnormal, false);
    await volume.down();
    nothingIsLeft();
    await eventually(() => assert.deepEqual(connected(), []));
    await volume.stage({ volume_context });
    assert.equal(readFileSync(join(volume.staging, 'file'), 'utf8'), 'data');
    await volume.unstage();
    nothingIsLeft();
  });

  test('is a raw block volume', async () => {
    const volume = harness.volume('disk', blockCapability());
    await volume.stage({ volume_context });
    await volume.publish({ volume_context });
    const bytes = execFileSync('blockdev', ['--getsize64', volume.target], { encoding: 'utf8' });
    assert.equal(bytes.trim(), `${320 << 20}`);
    await volume.down();
    nothingIsLeft();
    await eventually(() => assert.deepEqual(connected(), []));
  });

  test('whose server is gone: a stage fails in words, and a volume in use can be let go', async () => {
    const volume = harness.volume('disk', mountCapability('SINGLE_NODE_WRITER', [], 'xfs'));
    await volume.stage({ volume_context });
    servers('stop', 'nbdkit');
    await volume.unstage();
    nothingIsLeft();
    await assert.rejects(volume.stage({ volume_context }), /program nbd failed in stage: .*(refused|connect)/i);
    servers('nbdkit');
    await volume.stage({ volume_context });
    await volume.unstage();
    nothingIsLeft();
  });
});
