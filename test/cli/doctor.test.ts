import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { describe, test } from 'node:test';
import { holdfast } from '../support/command.ts';
import { DriverProcess, environmentFor } from '../support/driver.ts';
import { Scratch } from '../support/scratch.ts';

interface Finding {
  readonly check: string;
  readonly status: string;
  readonly detail: string;
  readonly remedy?: string;
}

async function findings(
  environment: Record<string, string>,
  uid?: number,
): Promise<{ code: number | null; findings: Finding[] }> {
  const { code, stdout, stderr } = await holdfast(['doctor', '--json'], environment, uid === undefined ? {} : { uid });
  assert.equal(stderr, '');
  return { code, findings: JSON.parse(stdout).findings };
}

function named(found: readonly Finding[], check: string): Finding | undefined {
  return found.find((finding) => finding.check === check);
}

describe('holdfast doctor', () => {
  test('finds nothing to mend where the driver runs', async () => {
    using scratch = new Scratch('cli');
    await using driver = await DriverProcess.start(scratch);
    const { code, findings: found } = await findings(environmentFor(scratch));
    assert.equal(code, 0, JSON.stringify(found));
    for (const check of [
      'CAP_SYS_ADMIN',
      'tools',
      'kernel',
      'mounts',
      'loop devices',
      'ext4',
      'xfs',
      'btrfs',
      'driver',
    ]) {
      assert.equal(named(found, check)?.status, 'ok', check);
    }
    assert.match(named(found, 'pool default')?.detail ?? '', new RegExp(`run by process ${driver.pid} `));
    assert.ok(
      found.every(({ status, remedy }) => status === 'ok' || (remedy ?? '') !== ''),
      'every remark says what to do',
    );
  });

  test('for people it is a line each and a count', async () => {
    using scratch = new Scratch('cli');
    const { code, stdout } = await holdfast(['doctor'], environmentFor(scratch));
    assert.equal(code, 0);
    assert.match(stdout, /^ok {4}tools +mkfs\.ext4, /m);
    assert.match(stdout, /\n\n\d+ ok, \d+ to look at, 0 to mend\n$/);
    assert.ok(!stdout.includes('\u001b'), 'no colours for a pipe');
  });

  test('a missing program is named with its package', async () => {
    using scratch = new Scratch('cli');
    mkdirSync(scratch.join('bin'));
    symlinkSync('/usr/bin/true', scratch.join('bin', 'mkfs.ext4'));
    const { code, findings: found } = await findings({ ...environmentFor(scratch), PATH: scratch.join('bin') });
    assert.equal(code, 1);
    assert.equal(named(found, 'mkfs.ext4'), undefined);
    assert.equal(named(found, 'mkfs.xfs')?.remedy, 'On Debian: apt-get install xfsprogs');
  });

  test('without privileges it says what is missing, and leaves nothing behind', async () => {
    using scratch = new Scratch('cli');
    const before = readdirSync(tmpdir()).filter((name) => name.startsWith('holdfast-doctor-'));
    const nobody = 65_534;
    const { code, findings: found } = await findings(environmentFor(scratch), nobody);
    assert.equal(code, 1);
    assert.equal(named(found, 'CAP_SYS_ADMIN')?.status, 'fail');
    assert.equal(named(found, 'mounts')?.status, 'fail');
    assert.match(named(found, 'mounts')?.detail ?? '', /Run it as root/);
    assert.deepEqual(
      readdirSync(tmpdir()).filter((name) => name.startsWith('holdfast-doctor-')),
      before,
    );
  });

  test('a pool whose disk is gone, and one that is no directory, are to be mended', async () => {
    using scratch = new Scratch('cli');
    writeFileSync(scratch.join('file'), '');
    const config = `pools:\n  default: { directory: ${scratch.join('file')} }\n`;
    const { code, findings: found } = await findings(environmentFor(scratch, { config }));
    assert.equal(code, 1, JSON.stringify(found));
    assert.equal(named(found, 'pool default')?.status, 'fail');
  });
});
