import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, statSync, writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { deviceNumber } from '../../src/kernel/device.ts';
import { ensureFilesystem } from '../../src/pool/location/format.ts';
import { rememberMember } from '../../src/pool/location/match/members.ts';
import { diskOfPool, type MatchedPool, type PoolDisk } from '../../src/pool/location/match/one-disk.ts';
import { markerPathOf } from '../../src/pool/records/pool-file.ts';
import { attachDisk, digestOf, sparseFile } from '../support/disk.ts';
import { Scratch } from '../support/scratch.ts';

describe('the disk of a pool with match', () => {
  const poolIn = (scratch: Scratch, changes: Partial<MatchedPool> = {}): MatchedPool => {
    mkdirSync(scratch.join('pools'), { recursive: true });
    return {
      ...{ queue: new DiskQueue('test', 2), dataDirectory: scratch.path, poolName: 'fast', holds: 'xfs' },
      ...{ match: { id: 'nothing-is-called-so' }, others: { named: [], sections: [] } },
      ...changes,
    };
  };

  test('is none if nothing matches', async () => {
    using scratch = new Scratch('matched');
    await assert.rejects(diskOfPool(poolIn(scratch)), /no disk of this node matches \(id nothing-is-called-so\)/);
  });

  test('is the noted one and no other, also if that is not there', async () => {
    using scratch = new Scratch('matched');
    const pool = poolIn(scratch, { match: { id: '*' } });
    await rememberMember(pool.queue, scratch.path, { poolName: 'fast', section: 'fast', identity: 'wwid away' });
    await assert.rejects(diskOfPool(pool), /its disk \(wwid away\) is not on this node\. Was it pulled\?/);
  });

  test('is not looked for if the node had the pool before it had match', async () => {
    using scratch = new Scratch('matched');
    const pool = poolIn(scratch);
    writeFileSync(markerPathOf(scratch.path, 'fast'), '0b0f3bd4-7f3c-4a75-8d53-5a6e6b1f6f0e\n');
    await assert.rejects(diskOfPool(pool), /had it before it had match.*Name its disk with device/);
  });

  test('is not looked for while another pool names a disk that is not there yet', async () => {
    using scratch = new Scratch('matched');
    const named = [{ poolName: 'slow', path: scratch.join('by-id') }];
    const pool = poolIn(scratch, { others: { named, sections: [] } });
    await assert.rejects(diskOfPool(pool), /pool slow names .*by-id, which is not there yet/);
  });

  test('is not looked for by who does not know the other pools', async () => {
    using scratch = new Scratch('matched');
    await assert.rejects(diskOfPool(poolIn(scratch, { others: undefined })), /the other pools are not known/);
  });
});

describe('a disk that was chosen by a match, when it is taken', () => {
  /** @returns what became of it: its reason, and whether it is as it was */
  async function take(prepare: (image: string) => void, matched: Pick<PoolDisk, 'identity' | 'isKnown'>) {
    using scratch = new Scratch('matched');
    const image = sparseFile(scratch.join('disk.img'), 400);
    prepare(image);
    const source = attachDisk(image);
    mkdirSync(scratch.join('pools'));
    const before = digestOf(image);
    let isNoted = false;
    const remember = async () => {
      isNoted = true;
    };
    await assert.rejects(
      ensureFilesystem({
        ...{ queue: new DiskQueue('test', 2), poolName: 'fast', source, devicePath: source },
        device: deviceNumber(statSync(source, { bigint: true }).rdev),
        markerDirectory: scratch.join('pools'),
        matched: { ...matched, path: source, remember },
      }),
      (error: Error) => {
        reason = error.message;
        return true;
      },
    );
    execFileSync('sync', [source]);
    assert.equal(digestOf(image), before, 'nothing is written to it');
    assert.equal(isNoted, false, 'it is not noted as the pool’s');
    return reason;
  }
  let reason = '';

  test('is refused if another disk has its number by now', async () => {
    assert.match(await take(() => undefined, { identity: 'wwid 1', isKnown: false }), /another disk than a moment ago/);
    assert.match(await take(() => undefined, { identity: 'wwid 1', isKnown: true }), /another disk than a moment ago/);
  });

  test('is refused if somebody has formatted it since, with XFS as we would', async () => {
    const format = (image: string) => execFileSync('mkfs.xfs', ['-q', image]);
    assert.match(
      await take(format, { identity: 'wwid 1', isKnown: false }),
      /was formatted by another program just now/,
    );
  });
});
