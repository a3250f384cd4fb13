import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { serializeNote } from '../../src/pool/on-node/volume-notes.ts';
import { fileNameOf, parseHandle } from '../../src/volume/handle.ts';
import { AnsweringNfs } from '../support/answering-nfs.ts';
import { holdfast } from '../support/command.ts';
import { remountReadOnly } from '../support/disk.ts';
import { DriverProcess, driverCommand, environmentFor } from '../support/driver.ts';
import { TestVolume } from '../support/life.ts';
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
    assert.match(stdout, /\n\n0 errors, \d+ warnings?, \d+ ok\n$/);
    assert.ok(!stdout.includes('\u001b'), 'no colours for a pipe');
  });

  test('a missing program is named with its package', async () => {
    using scratch = new Scratch('cli');
    mkdirSync(scratch.join('bin'));
    symlinkSync('/usr/bin/true', scratch.join('bin', 'mkfs.ext4'));
    const { code, findings: found } = await findings({ ...environmentFor(scratch), PATH: scratch.join('bin') });
    assert.equal(code, 1);
    assert.equal(named(found, 'mkfs.ext4'), undefined);
    assert.equal(named(found, 'mkfs.xfs')?.remedy, 'Install it. On Debian: apt-get install xfsprogs');
    assert.equal(named(found, 'git')?.status, 'warn');
    assert.match(named(found, 'git')?.detail ?? '', /inline volumes cannot be filled from a repository/);
    const { stdout } = await holdfast(['doctor'], { ...environmentFor(scratch), PATH: scratch.join('bin') });
    assert.match(
      stdout,
      /^fail {2}mkfs\.xfs +Install it\. On Debian: .*\n +\(not found in /m,
      'first what to do, then why',
    );
  });

  test('root without a capability is told which one, and not to become root', async () => {
    using scratch = new Scratch('cli');
    const drop = ['setpriv', '--bounding-set', '-sys_admin', '--inh-caps', '-sys_admin'];
    const { code, stdout } = await holdfast(['doctor', '--json'], environmentFor(scratch), {
      command: [...drop, ...driverCommand],
    });
    assert.equal(code, 1);
    const found: Finding[] = JSON.parse(stdout).findings;
    assert.match(named(found, 'CAP_SYS_ADMIN')?.remedy ?? '', /^Give it CAP_SYS_ADMIN: .*\.privileged: true/);
    assert.equal(named(found, 'mounts')?.status, 'fail');
    assert.doesNotMatch(stdout, /Run it as root/);
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

  test('a node that has another name than when its volumes were made', async () => {
    using scratch = new Scratch('cli');
    {
      await using driver = await DriverProcess.start(scratch);
      using client = driver.connect();
      await new TestVolume(scratch, 'moved').create(client);
    }
    const told = async (name: string) => {
      const { findings: found } = await findings({ ...environmentFor(scratch), HOLDFAST_NODE_ID: name });
      return named(found, 'pool default names');
    };
    assert.equal(await told('node-1'), undefined);
    const finding = await told('node-2');
    assert.equal(finding?.status, 'warn');
    assert.match(finding.detail, /^1 of 1 volumes were made on a node that is not called node-2, .*: volume vol-\w+$/);
    assert.match(finding.remedy ?? '', /stay Pending.*HOLDFAST_NODE_ID.*holdfast export/);
  });

  test('asks the servers of the volumes that a node uses', async () => {
    using scratch = new Scratch('cli');
    using server = await AnsweringNfs.start();
    server.noteVolume(scratch);
    const said = async () => {
      const { findings: found } = await findings(environmentFor(scratch, { environment: { HOLDFAST_SIDE: 'node' } }));
      const { detail, status } = named(found, 'nfs 127.0.0.1') ?? assert.fail();
      return [status, detail];
    };
    assert.deepEqual(await said(), ['ok', 'answers; 1 volume of this node']);
    server[Symbol.dispose]();
    const why = `the server cannot be reached at port ${server.port} (ECONNREFUSED)`;
    assert.deepEqual(await said(), ['warn', `${why}; 1 volume of this node`]);
  });

  test('of a node with an encrypted disk of a network it says whether it can be opened', async () => {
    using scratch = new Scratch('cli');
    const environment = environmentFor(scratch, { environment: { HOLDFAST_SIDE: 'node' } });
    const note = (encryption: Record<string, string>) => {
      const context = { iqn: 'iqn.2026-01.org.example:a', portals: '127.0.0.1:1', lun: '1', ...encryption };
      const handle = parseHandle('database') ?? assert.fail();
      const volume = { handle, content: { type: 'block' }, provisioning: 'thin', context } as const;
      mkdirSync(scratch.join('data/volumes'), { recursive: true });
      const path = scratch.join('data/volumes', `${fileNameOf(handle)}.json`);
      writeFileSync(path, serializeNote({ kind: 'iscsi', volume, paths: [] }));
    };
    note({});
    assert.equal(named((await findings(environment)).findings, 'cryptsetup'), undefined);
    note({ encryption: 'luks2' });
    const { findings: found } = await findings(environment);
    assert.equal(named(found, 'cryptsetup')?.status, 'ok');
    assert.match(named(found, 'iscsi iqn.2026-01.org.example:a')?.detail ?? '', /cannot be reached/);
  });

  test('of a pool of directories it says whether quota holds its sizes', async () => {
    using scratch = new Scratch('cli');
    const pool = (quota: string) =>
      `pools:\n  default: { kind: directory, path: ${scratch.join('pool')}, quota: ${quota} }\n`;
    const made = { config: pool('whenAvailable') };
    {
      await using _driver = await DriverProcess.start(scratch, made);
    }
    const said = async (quota: string) => {
      const { code, findings: found } = await findings(environmentFor(scratch, { config: pool(quota) }));
      const finding = found.find(({ check }) => /project quota/.test(check));
      return [code, finding?.status, finding?.remedy];
    };
    // The filesystem of the tests has none.
    const remedy = 'Mount the filesystem with prjquota (docs/directories.md).';
    assert.deepEqual(await said('whenAvailable'), [0, 'warn', remedy]);
    assert.deepEqual(await said('required'), [1, 'fail', remedy]);
    assert.deepEqual(await said('none'), [0, 'ok', undefined]);
  });

  test('of a pool of directories it says that the containers of the node must be seen', async () => {
    using scratch = new Scratch('cli');
    const config = `pools:\n  default: { kind: directory, path: ${scratch.join('pool')} }\n`;
    {
      await using _driver = await DriverProcess.start(scratch, { config });
    }
    const environment = environmentFor(scratch, { config });
    const isTold = (found: readonly Finding[]) => found.find(({ check }) => / containers$/.test(check))?.remedy;
    assert.equal(isTold((await findings(environment)).findings), undefined);
    const hidden = ['unshare', '--pid', '--fork', '--kill-child', ...driverCommand];
    const { stdout } = await holdfast(['doctor', '--json'], environment, { command: hidden });
    assert.match(isTold(JSON.parse(stdout).findings) ?? '', /hostPID: true/);
  });

  test('a pool whose disk is gone, and one that is no directory, are to be mended', async () => {
    using scratch = new Scratch('cli');
    writeFileSync(scratch.join('file'), '');
    const config = `pools:\n  default: { directory: ${scratch.join('file')} }\n`;
    const { code, findings: found } = await findings(environmentFor(scratch, { config }));
    assert.equal(code, 1, JSON.stringify(found));
    assert.equal(named(found, 'pool default')?.status, 'fail');
  });

  test('changes nothing in a pool', async () => {
    using scratch = new Scratch('cli');
    const options = { config: `pools:\n  default: { directory: ${scratch.join('pool')} }\n` };
    const driver = await DriverProcess.start(scratch, options);
    await driver.stop();
    const before = changesIn(scratch.join('pool'));
    const { code } = await findings(environmentFor(scratch, options));
    assert.equal(code, 0);
    assert.deepEqual(changesIn(scratch.join('pool')), before);
  });

  test('a pool on a read-only filesystem is to be mended, and its volumes can be seen all the same', async () => {
    using scratch = new Scratch('cli');
    const disk = scratch.join('disk');
    mkdirSync(disk);
    execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', disk]);
    const options = { config: `pools:\n  default: { directory: ${join(disk, 'pool')}, reserve: 1Mi }\n` };
    const driver = await DriverProcess.start(scratch, options);
    using client = driver.connect();
    const id = await new TestVolume(scratch, 'v').create(client);
    await driver.stop();
    await remountReadOnly(disk);
    const environment = environmentFor(scratch, options);
    const { code, findings: found } = await findings(environment);
    assert.equal(code, 1);
    assert.match(named(found, 'pool default')?.remedy ?? '', /is mounted read-only/);
    assert.equal((await holdfast(['pools'], environment)).code, 1);
    const volumes = await holdfast(['volumes'], environment);
    assert.deepEqual([volumes.code, volumes.stderr], [0, '']);
    assert.ok(volumes.stdout.includes(id));
  });
});

/** When each file and directory was last changed in any way. */
function changesIn(directory: string): string[] {
  const paths = ['.', ...readdirSync(directory, { recursive: true, encoding: 'utf8' })];
  return paths.map((path) => `${path} ${statSync(join(directory, path), { bigint: true }).ctimeNs}`);
}
