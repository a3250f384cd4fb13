import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { holdfast } from '../support/command.ts';
import { DriverProcess, environmentFor } from '../support/driver.ts';
import { Scratch } from '../support/scratch.ts';

/** Each makes a location that the driver will not use, and returns how the configuration names it. */
const situations: Readonly<Record<string, { readonly make: (scratch: Scratch) => string; readonly says: RegExp }>> = {
  'a disk with an ext4': {
    make: (scratch) => {
      execFileSync('truncate', ['--size=1G', scratch.join('disk.img')]);
      execFileSync('mkfs.ext4', ['-q', scratch.join('disk.img')]);
      return `device: ${attached(scratch)}`;
    },
    says: /is not blank: it holds filesystem \(ext4\).*wipefs/,
  },
  'a disk with data of a kind that nobody knows': {
    make: (scratch) => {
      execFileSync('truncate', ['--size=1G', scratch.join('disk.img')]);
      execFileSync('dd', [`of=${scratch.join('disk.img')}`, 'conv=notrunc', 'status=none'], {
        input: randomBytes(9000),
      });
      return `device: ${attached(scratch)}`;
    },
    says: /is not blank: it holds data of an unknown kind/,
  },
  'a blank disk that is too small': {
    make: (scratch) => {
      execFileSync('truncate', ['--size=100M', scratch.join('disk.img')]);
      return `device: ${attached(scratch)}`;
    },
    says: /has only 100Mi: XFS, and so a pool, needs at least 300Mi/,
  },
  'a file with a damaged XFS': {
    make: (scratch) => {
      const file = scratch.join('disk.img');
      execFileSync('truncate', ['--size=1G', file]);
      execFileSync('mkfs.xfs', ['-q', file]);
      // The first group's headers, behind the superblock.
      execFileSync('dd', ['if=/dev/zero', `of=${file}`, 'bs=512', 'seek=1', 'count=3', 'conv=notrunc', 'status=none']);
      return `file: ${file}`;
    },
    says: /cannot be mounted .*xfs_repair -n/,
  },
  'a file with something else in it': {
    make: (scratch) => {
      execFileSync('truncate', ['--size=1G', scratch.join('disk.img')]);
      execFileSync('mkfs.btrfs', ['-q', scratch.join('disk.img')]);
      return `file: ${scratch.join('disk.img')}`;
    },
    says: /is not blank: it holds filesystem \(btrfs\)/,
  },
  'what is no device': {
    make: (scratch) => {
      writeFileSync(scratch.join('plain'), '');
      return `device: ${scratch.join('plain')}`;
    },
    says: /plain is not a block device of this node/,
  },
  'a directory with files of others': {
    make: (scratch) => {
      mkdirSync(scratch.join('full'));
      writeFileSync(scratch.join('full', 'letter.txt'), '');
      return `directory: ${scratch.join('full')}`;
    },
    says: /is not empty and not a pool \(it has 'letter\.txt'\)/,
  },
  'a directory with files of others where a pool has its own': {
    make: (scratch) => {
      mkdirSync(scratch.join('full', 'tmp', 'letters'), { recursive: true });
      return `kind: directory, path: ${scratch.join('full')}`;
    },
    says: /is not empty and not a pool \(it has 'tmp\/letters'\)/,
  },
  'a directory without the quota that it requires': {
    make: (scratch) => `kind: directory, path: ${scratch.join('plain')}, quota: required`,
    says: /enforces no project quota\. Mount it with prjquota/,
  },
  "a directory on the system's disk that is to be another disk's": {
    make: (scratch) => `directory: ${scratch.join('fast')}, systemDisk: refuse`,
    says: /fast is on the system's disk \(.*\)\. Is its disk mounted\?.*systemDisk: allow/,
  },
  "a directory of the system's disk that is there already": {
    make: (scratch) => {
      mkdirSync(scratch.join('fast'));
      return `kind: directory, path: ${scratch.join('fast')}, systemDisk: refuse`;
    },
    says: /fast is on the system's disk/,
  },
  "another pool's disk": {
    make: (scratch) => {
      const pool = { format: 1, id: randomUUID(), blockSizeBytes: 512, createdAt: new Date().toISOString() };
      mkdirSync(scratch.join('other'));
      writeFileSync(scratch.join('other', 'pool.json'), JSON.stringify(pool));
      mkdirSync(scratch.join('data', 'pools'), { recursive: true });
      writeFileSync(scratch.join('data', 'pools', 'refused.id'), `${randomUUID()}\n`);
      return `directory: ${scratch.join('other')}`;
    },
    says: /holds pool .* but on this node the pool was .* Is the right disk mounted/,
  },
  'a pool of a version that is not known': {
    make: (scratch) => {
      mkdirSync(scratch.join('newer'));
      writeFileSync(scratch.join('newer', 'pool.json'), JSON.stringify({ format: 2, id: randomUUID() }));
      return `directory: ${scratch.join('newer')}`;
    },
    says: /pool\.json cannot be read as a pool of this version .*Nothing was changed/,
  },
};

function attached(scratch: Scratch): string {
  const losetup = ['--find', '--show', scratch.join('disk.img')];
  return execFileSync('losetup', losetup, { encoding: 'utf8' }).trim();
}

describe('a pool that the driver will not use', () => {
  for (const [name, { make, says }] of Object.entries(situations)) {
    test(`${name}: doctor and pools say what the driver says, and fail`, async () => {
      using scratch = new Scratch('cli');
      const pools = `refused: { ${make(scratch)} }\n  well: { directory: ${scratch.join('well')} }`;
      const options = { config: `defaultPool: well\npools:\n  ${pools}\n` };
      const environment = environmentFor(scratch, options);

      const doctor = await holdfast(['doctor', '--json'], environment);
      assert.equal(doctor.code, 1);
      const finding = JSON.parse(doctor.stdout).findings.find(
        ({ check }: { check: string }) => check === 'pool refused',
      );
      assert.equal(finding.status, 'fail');
      assert.match(finding.remedy, says);
      const before = await adviceOf(environment);
      assert.equal(before, withoutNumber(finding.remedy));

      await using _driver = await DriverProcess.start(scratch, options);
      assert.equal(await adviceOf(environment), before);
    });
  }

  test('a blank disk is one that it will use', async () => {
    using scratch = new Scratch('cli');
    execFileSync('truncate', ['--size=1G', scratch.join('disk.img')]);
    const options = { config: `pools:\n  default: { device: ${attached(scratch)} }\n` };
    const { code, stdout, stderr } = await holdfast(['pools'], environmentFor(scratch, options));
    assert.equal(code, 0);
    assert.match(stdout, /^default \(default\) +image +- +absent /m);
    assert.match(stderr, /holds no pool yet: the driver makes it at its first start/);
    // Still blank.
    execFileSync('cmp', ['--bytes=1G', scratch.join('disk.img'), '/dev/zero']);
  });
});

/** What `holdfast pools` has to say of the pool. */
async function adviceOf(environment: Readonly<Record<string, string>>): Promise<string> {
  const { code, stdout } = await holdfast(['pools', '--json'], environment);
  assert.equal(code, 1);
  const [{ advice, state }] = JSON.parse(stdout).pools;
  assert.equal(state, 'broken');
  return withoutNumber(advice);
}

/** A file is shown by another loop device each time. */
function withoutNumber(text: string): string {
  return text.replaceAll(/ \/dev\/loop\d+:/g, ' /dev/loop:');
}
