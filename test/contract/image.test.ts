import { execFileSync } from 'node:child_process';
import { existsSync, truncateSync, writeFileSync } from 'node:fs';
import { openTestPool } from '../support/image-pool.ts';
import type { Scratch } from '../support/scratch.ts';
import { describeEphemeral } from './ephemeral-contract.ts';
import { describeDevices, describePool } from './pool-contract.ts';
import { describePublication } from './publication-contract.ts';
import { describeIdentities, describeInstantSnapshots, describeSnapshots } from './snapshot-contract.ts';
import {
  describeThickness,
  describeTrash,
  describeTrashUnderPressure,
  type PoolWithOptions,
} from './trash-contract.ts';

const backingFile: PoolWithOptions = {
  open: (scratch, options) =>
    openTestPool(scratch, {
      location: { type: 'file', path: scratch.join('pool.img'), sizeBytes: 4n << 30n },
      ...options,
    }),
};

const kinds: Readonly<Record<string, PoolWithOptions>> = {
  'image pool in a directory of the host': { open: openTestPool },
  'image pool in a backing file': backingFile,
  'image pool on a blank disk': {
    open: (scratch, options) =>
      openTestPool(scratch, { location: { type: 'device', path: disk(scratch) }, ...options }),
  },
};

for (const [kind, poolUnderTest] of Object.entries(kinds)) {
  describePool(kind, poolUnderTest);
  describeDevices(kind, poolUnderTest);
  describeSnapshots(kind, poolUnderTest);
  describeIdentities(kind, poolUnderTest);
  describeTrash(kind, poolUnderTest);
  describeThickness(kind, poolUnderTest);
  describePublication(kind, poolUnderTest);
  describeEphemeral(kind, poolUnderTest);
}
describeInstantSnapshots('image pool in a backing file', backingFile);
describeTrashUnderPressure('image pool in a backing file', backingFile);

/** A disk for one test: a loop device over a sparse file, the same one each time. */
function disk(scratch: Scratch): string {
  const file = scratch.join('disk');
  if (!existsSync(file)) {
    writeFileSync(file, '');
    truncateSync(file, 4 * 2 ** 30);
    execFileSync('losetup', ['--find', file]);
  }
  return execFileSync('losetup', ['--noheadings', '--output', 'NAME', '--associated', file], {
    encoding: 'utf8',
  }).trim();
}
