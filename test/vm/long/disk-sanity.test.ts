import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { makingCopies, withoutCopies } from '../../../csi-sanity/expectations.ts';
import { eventually } from '../../support/eventually.ts';
import { taken } from '../disk-kind/match-scene.ts';
import { passesSanity } from '../node/sanity.ts';

/** More than the specs have volumes at a time, and than are still being wiped then. */
const diskCount = 8;
/**
 * What is ours on a disk is 4 MiB. A volume has all of its disk, so all sizes of the specs are that of a disk: then a second request
 * for twice as much is another volume, and a volume that is expanded has what it is expanded to.
 */
const volumeMebibytes = 96;
const sizeGiB = (volumeMebibytes + 4) / 1024;
/** On a busy machine; alone it takes a minute. */
const patienceMs = 600_000;

describe('csi-sanity over disks that are matched', () => {
  test('passes, but for what makes snapshots and clones', (t) =>
    passesSanity(t, {
      pool: '{ kind: disk, match: { bus: scsi, size: { maximum: 1Gi } } }',
      disks: Array.from({ length: diskCount }, (_, index) => ({ name: `disk-${index}`, sizeGiB, bus: 'scsi' })),
      prepare: `modprobe -a virtio_scsi sd_mod dm_mod && until [ $(ls -d /sys/block/sd* 2>/dev/null | wc -l) = ${diskCount} ]; do sleep 0.1; done`,
      ready: (node) => eventually(async () => assert.equal(taken(node), diskCount), patienceMs),
      sizeMebibytes: volumeMebibytes,
      expandedMebibytes: volumeMebibytes,
      leftOut: makingCopies,
      expected: withoutCopies,
    }));
});
