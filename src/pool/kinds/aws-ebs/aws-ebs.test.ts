import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Mistake, SectionReader } from '../../../settings/section.ts';
import { InvalidArgument, OutOfRange } from '../../../volume/errors.ts';
import type { VolumeHandle } from '../../../volume/handle.ts';
import { volumeIdFor } from '../../../volume/id.ts';
import { readCloudVolume, writeCloudVolume } from '../../cloud-disk/context.ts';
import { readEbsPool } from './config.ts';
import { ebsDiskIds, serialOf } from './context.ts';
import { placesFor } from './instance.ts';
import { ebsNodeKind } from './node.ts';
import { parseEbsParameters } from './parameters.ts';

const gibibyte = 1n << 30n;
const volumeId = 'vol-0123456789abcdef0';

describe('a pool of EBS volumes', () => {
  const mistakesIn = (content: object) => {
    const mistakes: Mistake[] = [];
    readEbsPool(new SectionReader(content, [], mistakes));
    return mistakes.map(({ message }) => message).join('; ');
  };

  test('needs a poolId that can be a tag and a label', () => {
    assert.equal(mistakesIn({ poolId: 'prod-eu' }), '');
    assert.match(mistakesIn({}), /needs a poolId/);
    for (const poolId of ['', 'Prod', 'a_b', '-a', 'a'.repeat(64)])
      assert.match(mistakesIn({ poolId }), /must be 1 to 63/);
  });

  test('does not take tags that are the driver’s or AWS’s, nor too many', () => {
    assert.equal(mistakesIn({ poolId: 'a', tags: { team: 'x' } }), '');
    for (const key of ['aws:x', 'holdfast.dev/pool', 'Name']) {
      assert.match(mistakesIn({ poolId: 'a', tags: { [key]: 'x' } }), /is a tag of AWS or of this driver/);
    }
    assert.match(mistakesIn({ poolId: 'a', tags: { a: 1 } }), /put it in quotes/);
    const many = Object.fromEntries(Array.from({ length: 21 }, (_, at) => [`t${at}`, 'x']));
    assert.match(mistakesIn({ poolId: 'a', tags: many }), /more than 20/);
  });

  test('takes an address as endpoint', () => {
    assert.equal(mistakesIn({ poolId: 'a', endpoint: 'https://vpce.example' }), '');
    for (const endpoint of ['vpce.example', 'file:///x', 'http://vpce.example', 'http://127.0.0.1.example', 7])
      assert.match(mistakesIn({ poolId: 'a', endpoint }), /an address/);
  });
});

describe('the parameters of a class', () => {
  const parse = (parameters: Record<string, string>, sizeGiB = 10n) =>
    parseEbsParameters(parameters, sizeGiB * gibibyte);

  test('have the names of the vendor’s driver', () => {
    assert.deepEqual(parse({}), { VolumeType: 'gp3' });
    assert.deepEqual(parse({ type: 'gp3', iops: '4000', throughput: '250' }), {
      VolumeType: 'gp3',
      Iops: '4000',
      Throughput: '250',
    });
    assert.deepEqual(parse({ type: 'io1', iopsPerGB: '50' }), { VolumeType: 'io1', Iops: '500' });
    assert.deepEqual(parse({ encrypted: 'true', kmsKeyId: 'alias/a' }), {
      VolumeType: 'gp3',
      Encrypted: 'true',
      KmsKeyId: 'alias/a',
    });
  });

  test('are refused where they contradict each other', () => {
    for (const parameters of [
      { type: 'gp4' },
      { iops: 'many' },
      { type: 'io2' },
      { type: 'gp2', iops: '100' },
      { type: 'st1', throughput: '100' },
      { iops: '1', iopsPerGB: '1' },
      { kmsKeyId: 'alias/a' },
      { encrypted: 'yes' },
    ] as Record<string, string>[]) {
      assert.throws(() => parse(parameters), InvalidArgument, JSON.stringify(parameters));
    }
    assert.throws(() => parse({ type: 'st1' }), OutOfRange);
    assert.throws(() => parse({}, 70_000n), OutOfRange);
  });
});

describe('the context of an EBS volume', () => {
  test('is read as it was written, and nothing else is', () => {
    for (const context of [
      { volumeId, mkfsOptions: '', isRestored: false },
      { volumeId, mkfsOptions: '-m 1', isRestored: true },
    ]) {
      assert.deepEqual(readCloudVolume(ebsDiskIds, writeCloudVolume(context)), context);
    }
    for (const wrong of [
      {},
      { volumeId: 'vol-xyz' },
      { volumeId, restored: 'perhaps' },
      { volumeId: `${volumeId} ` },
    ]) {
      assert.throws(() => readCloudVolume(ebsDiskIds, wrong as Record<string, string>), InvalidArgument);
    }
  });

  test('has the id of the volume as the handle, unless this driver made it', () => {
    const kind = ebsNodeKind();
    const allow = (handle: string) => kind.requireHandle?.(handle as VolumeHandle, { volumeId });
    allow(volumeId);
    allow(volumeIdFor('cluster', 'pool', 'a'));
    for (const handle of ['database', 'vol-0123456789abcdef1'])
      assert.throws(() => allow(handle), /is its id: write vol-/);
  });

  test('leads to the serial number of a device', () => {
    assert.equal(serialOf(volumeId), 'vol0123456789abcdef0');
  });

  test('a filesystem that is a server’s is none of a disk', () => {
    const kind = ebsNodeKind();
    assert.throws(() => kind.read({ volumeId }, { access: 'mount', fsType: 'nfs4' }), InvalidArgument);
    assert.deepEqual(kind.read({ volumeId }, { access: 'block', fsType: undefined }).content, { type: 'block' });
  });
});

test('places for volumes are what cards and disks leave', () => {
  assert.equal(placesFor(['02:00:00:00:00:01/'], ['ami', 'root']), 26);
  assert.equal(placesFor(['a/', 'b/', 'c/'], ['ami', 'root', 'ebs1', 'ephemeral0', 'swap']), 22);
  assert.equal(placesFor([], []), 26);
  assert.equal(
    placesFor(
      Array.from({ length: 40 }, () => 'x'),
      [],
    ),
    1,
  );
});
