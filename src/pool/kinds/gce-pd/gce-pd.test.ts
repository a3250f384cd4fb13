import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import fc from 'fast-check';
import { type Mistake, SectionReader } from '../../../settings/section.ts';
import { InvalidArgument, OutOfRange } from '../../../volume/errors.ts';
import type { VolumeHandle } from '../../../volume/handle.ts';
import { volumeIdFor } from '../../../volume/id.ts';
import { readCloudVolume, writeCloudVolume } from '../../cloud-disk/context.ts';
import { readGcePool } from './config.ts';
import { diskNameIn, gceDiskIds, zoneIn } from './disk-id.ts';
import { GoogleFinder, namesInPage83 } from './google-finder.ts';
import { placesFor } from './instance.ts';
import { gceNodeKind } from './node.ts';
import { parseGceParameters } from './parameters.ts';

const gibibyte = 1n << 30n;
const volumeId = 'projects/my-project/zones/europe-west1-b/disks/pvc-1';

describe('a pool of persistent disks', () => {
  const mistakesIn = (content: object) => {
    const mistakes: Mistake[] = [];
    readGcePool(new SectionReader(content, [], mistakes));
    return mistakes.map(({ message }) => message).join('; ');
  };

  test('needs a poolId, and takes the id of a project', () => {
    assert.equal(mistakesIn({ poolId: 'prod-eu' }), '');
    assert.match(mistakesIn({}), /needs a poolId/);
    for (const project of ['my-project-1', 'example.com:my-project'])
      assert.equal(mistakesIn({ poolId: 'a', project }), '');
    for (const project of ['My', 'a', '123456', 'projects/a']) {
      assert.match(mistakesIn({ poolId: 'a', project }), /the id of a project/);
    }
  });

  test('does not take labels that are the driver’s or Google’s, nor any that Google does not take', () => {
    assert.equal(mistakesIn({ poolId: 'a', diskLabels: { team: 'x', empty: '' } }), '');
    for (const key of ['holdfast-pool', 'goog-gke-volume']) {
      assert.match(mistakesIn({ poolId: 'a', diskLabels: { [key]: 'x' } }), /is a label of Google or of this driver/);
    }
    for (const labels of [{ Team: 'x' }, { a: 'X' }, { '1a': 'x' }, { a: 'x'.repeat(64) }, { 'a/b': 'x' }]) {
      assert.match(mistakesIn({ poolId: 'a', diskLabels: labels }), /cannot be a label/, JSON.stringify(labels));
    }
  });
});

describe('the parameters of a class of persistent disks', () => {
  const parse = (parameters: Record<string, string>, sizeGiB = 10n) =>
    parseGceParameters(parameters, sizeGiB * gibibyte);

  test('have the names and the default of the vendor’s driver', () => {
    const none = { kmsKey: undefined, labels: {}, iops: undefined, throughput: undefined };
    assert.deepEqual(parse({}), { ...none, type: 'pd-standard' });
    assert.deepEqual(parse({ type: 'pd-balanced', 'replication-type': 'none', labels: 'team=a, cost=7' }), {
      ...none,
      ...{ type: 'pd-balanced', labels: { team: 'a', cost: '7' } },
    });
    const key = 'projects/p/locations/europe-west1/keyRings/r/cryptoKeys/k';
    assert.deepEqual(
      parse({
        type: 'hyperdisk-balanced',
        'provisioned-iops-on-create': '4000',
        'provisioned-throughput-on-create': '250Mi',
        'disk-encryption-kms-key': key,
      }),
      { type: 'hyperdisk-balanced', kmsKey: key, labels: {}, iops: '4000', throughput: '250' },
    );
  });

  test('are refused where they contradict each other', () => {
    for (const parameters of [
      { type: 'pd-fast' },
      { 'replication-type': 'regional-pd' },
      { type: 'pd-ssd', 'provisioned-iops-on-create': '3000' },
      { type: 'hyperdisk-extreme', 'provisioned-throughput-on-create': '100Mi' },
      { type: 'hyperdisk-balanced', 'provisioned-iops-on-create': 'many' },
      { type: 'hyperdisk-balanced', 'provisioned-throughput-on-create': '100' },
      { 'disk-encryption-kms-key': 'k' },
      { labels: 'team' },
      { labels: 'a=b=c' },
      { labels: 'holdfast-pool=other' },
    ] as Record<string, string>[]) {
      assert.throws(() => parse(parameters), InvalidArgument, JSON.stringify(parameters));
    }
    assert.throws(() => parse({ 'replication-type': 'regional-pd' }), /a disk is in one zone here/);
    assert.throws(() => parse({ type: 'hyperdisk-balanced' }, 3n), OutOfRange);
    assert.throws(() => parse({}, 70_000n), OutOfRange);
  });
});

describe('the context of a persistent disk', () => {
  test('is read as it was written', () => {
    const context = { volumeId, mkfsOptions: '-m 1', isRestored: true };
    assert.deepEqual(readCloudVolume(gceDiskIds, writeCloudVolume(context)), context);
    assert.equal(diskNameIn(volumeId), 'pvc-1');
    assert.equal(zoneIn(volumeId), 'europe-west1-b');
  });

  test('takes ids of the vendor’s PersistentVolumes, and says of regional ones that they are not supported', () => {
    const read = (id: string) => readCloudVolume(gceDiskIds, { volumeId: id });
    read('projects/example.com:my-project/zones/us-central1-f/disks/a');
    for (const wrong of [
      'projects/p/regions/europe-west1/disks/a',
      'projects/p/zones/multi-zone/disks/a/',
      'projects/UNSPECIFIED/zones/UNSPECIFIED/disks/a',
      'projects/p/zones/europe-west1-b/disks/../a',
      'projects/p/zones/europe-west1-b/disks/A',
      'projects/p/zones/europe-west1-b/instances/a',
      'pvc-1',
      ` ${volumeId}`,
    ]) {
      assert.throws(() => read(wrong), /regional and multi-zone disks are not supported/, wrong);
    }
  });

  test('has the id of the disk as the handle, unless this driver made it', () => {
    const kind = gceNodeKind();
    const allow = (handle: string) => kind.requireHandle?.(handle as VolumeHandle, { volumeId });
    allow(volumeId);
    allow(volumeIdFor('cluster', 'pool', 'a'));
    for (const handle of ['database', `${volumeId}2`]) assert.throws(() => allow(handle), /is its id: write projects/);
  });
});

test('places for volumes follow from the type of the machine', () => {
  const expected: Readonly<Record<string, number>> = {
    'n1-standard-4': 127,
    'custom-2-4096': 127,
    'e2-medium': 15,
    'c4-standard-2': 7,
    'c4-highmem-16': 31,
    'c4-standard-192': 127,
    'c4a-standard-72': 63,
    'c4d-standard-4': 7,
    'n4-standard-8': 15,
    'n4-custom-16-32768': 31,
    'n4-odd': 15,
    'unheard-of': 127,
  };
  for (const [type, places] of Object.entries(expected)) assert.equal(placesFor(type), places, type);
});

/** A descriptor of VPD page 83h. */
function descriptor(text: string, { codeSet = 2, type = 0 } = {}): Buffer {
  return Buffer.concat([Buffer.from([codeSet, type, 0, text.length]), Buffer.from(text, 'latin1')]);
}

function page83(...descriptors: readonly Buffer[]): Buffer {
  const body = Buffer.concat(descriptors);
  const head = Buffer.from([0, 0x83, 0, 0]);
  head.writeUInt16BE(body.length, 2);
  return Buffer.concat([head, body]);
}

describe('the name that a SCSI disk reports', () => {
  test('is the vendor’s own identifier in letters, among others', () => {
    const page = page83(
      descriptor('\x50\x01\x02\x03\x04\x05\x06\x07', { codeSet: 1, type: 3 }),
      descriptor('Google  other', { type: 1 }),
      descriptor('holdfast-1'),
      descriptor('port', { type: 0x10 }),
    );
    assert.deepEqual(namesInPage83(page), ['holdfast-1']);
  });

  test('no bytes break the reader, and a page that is cut short has no names', () => {
    assert.deepEqual(namesInPage83(page83(descriptor('holdfast-1')).subarray(0, 10)), []);
    fc.assert(fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => void namesInPage83(Buffer.from(bytes))));
  });
});

describe('persistent disks by name', () => {
  let root: string;
  beforeEach(() => {
    root = mkdtempSync('/var/tmp/holdfast-sysfs-');
  });
  afterEach(() => rmSync(root, { recursive: true }));

  function disk(name: string, dev: string, diskName: string, vendor = 'Google', model = 'PersistentDisk'): void {
    const directory = join(root, 'block', name, 'device');
    mkdirSync(directory, { recursive: true });
    writeFileSync(join(directory, 'vendor'), `${vendor.padEnd(8)}\n`);
    writeFileSync(join(directory, 'model'), `${model.padEnd(16)}\n`);
    writeFileSync(join(directory, 'vpd_pg83'), page83(descriptor(diskName)));
    writeFileSync(join(root, 'block', name, 'dev'), `${dev}\n`);
    writeFileSync(join(root, 'block', name, 'size'), '2097152\n');
  }

  test('the whole disk with exactly that name is found, if it is of Google', () => {
    disk('sda', '8:0', 'boot');
    disk('sdb', '8:16', 'holdfast-1');
    disk('sdb1', '8:17', 'holdfast-1');
    disk('sdc', '8:32', 'holdfast-1', 'QEMU');
    disk('sdd', '8:48', 'holdfast-12');
    const finder = new GoogleFinder(root);
    assert.deepEqual(finder.find('holdfast-1'), [
      { name: 'sdb', devicePath: '/dev/sdb', device: { major: 8, minor: 16 }, sizeBytes: gibibyte },
    ]);
    assert.deepEqual(finder.find('holdfast'), []);
  });

  test('two disks of one name are both found: their user refuses them', () => {
    disk('sdb', '8:16', 'holdfast-1');
    disk('sdc', '8:32', 'holdfast-1');
    assert.equal(new GoogleFinder(root).find('holdfast-1').length, 2);
  });

  test('a machine without such disks has none, and one with NVMe says why', () => {
    const finder = new GoogleFinder(root);
    assert.deepEqual(finder.find('a'), []);
    assert.equal(finder.obstacle(), undefined);
    mkdirSync(join(root, 'block/nvme0n1/device'), { recursive: true });
    writeFileSync(join(root, 'block/nvme0n1/device/model'), 'nvme_card-pd\n');
    assert.match(finder.obstacle() ?? '', /shows persistent disks as NVMe/);
  });
});
