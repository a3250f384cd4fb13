import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { symlinkSync, writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { HoldfastError } from '../../src/volume/errors.ts';
import { attachDisk, digestOf, sparseFile } from '../support/disk.ts';
import { openTestPool } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';
import { whileMounted } from '../support/while-mounted.ts';
import { times } from './runs.ts';

/*
 * DK02 DK03 DK05: the name of a pool's disk leads to another disk, and back, as fast as the kernel lets it, while the pool is
 * opened: not one byte of the other disk changes, whatever is on it.
 */

/** Runs in a process of its own: the link leads to one after the other. */
const turning = `
  const { renameSync, symlinkSync } = require('node:fs');
  const [path, ...targets] = process.argv.slice(1);
  for (let round = 0; ; round++) {
    symlinkSync(targets[round % targets.length], path + '.next');
    renameSync(path + '.next', path);
  }
`;

async function whileTurning(path: string, targets: readonly string[], work: () => Promise<void>): Promise<void> {
  const child = spawn(process.execPath, ['-e', turning, path, ...targets], { stdio: 'ignore' });
  const ended = once(child, 'exit');
  try {
    await work();
  } finally {
    child.kill('SIGKILL');
    await ended;
  }
}

/** What somebody else has on a disk. */
const others: Readonly<Record<string, (image: string, scratch: Scratch) => void>> = {
  'an XFS whose machine died': (image, scratch) => {
    execFileSync('mkfs.xfs', ['-q', image]);
    whileMounted(image, scratch.join('mnt'), () => {
      writeFileSync(scratch.join('mnt/letters.txt'), 'dear');
      execFileSync('xfs_io', ['-x', '-c', 'shutdown -f', scratch.join('mnt')]);
    });
  },
  'an ext4': (image) => void execFileSync('mkfs.ext4', ['-q', image]),
  'data at its end': (image) =>
    void execFileSync('dd', [`of=${image}`, 'bs=1M', 'seek=399', 'conv=notrunc,fsync', 'status=none'], {
      input: 'a database',
    }),
};

describe('the name of a disk that leads to another one and back while its pool is opened', () => {
  for (const [what, make] of Object.entries(others)) {
    test(`the other one has ${what}`, async (t) => {
      using scratch = new Scratch('device-swap');
      const image = sparseFile(scratch.join('other.img'), 400);
      make(image, scratch);
      const [own, other] = [attachDisk(sparseFile(scratch.join('own.img'), 400)), attachDisk(image)];
      const before = digestOf(image);
      const path = scratch.join('by-id');
      symlinkSync(own, path);
      let opened = 0;
      await whileTurning(path, [own, other], async () => {
        for (let round = 0; round < times(6); round++) {
          try {
            const pool = await openTestPool(scratch, { location: { type: 'device', path } });
            await pool.close();
            opened++;
          } catch (error) {
            assert.ok(error instanceof HoldfastError, String(error));
          }
        }
      });
      execFileSync('sync', [other]);
      assert.equal(digestOf(image), before);
      t.diagnostic(`opened ${opened} times`);
    });
  }
});
