import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { SeededRandom } from '../../crash/seeded-random.ts';
import { eventually } from '../../support/eventually.ts';
import { prepareLinks } from '../disk-kind/links.ts';
import { leavesToTheFirst, liveMatched, survivesKills } from '../disk-kind/match-life.ts';
import {
  configOf,
  make,
  mebibyte,
  patienceMs,
  setup,
  showsWhatIsTaken,
  taken,
  takesWhatIsFree,
} from '../disk-kind/match-scene.ts';
import { startNode } from '../node/start-node.ts';

describe('disks that were matched', () => {
  test('are shown, are left alone by another driver, and taken again after any kill', async (t) => {
    await using started = await startNode(t, setup);
    await takesWhatIsFree(started);
    await showsWhatIsTaken(started.node);
    await leavesToTheFirst(started);
    await survivesKills(started);
  });

  test('keep their volumes through a reboot, another match, and when they are pulled; what is cleared is taken', async (t) => {
    await using started = await startNode(t, setup);
    await takesWhatIsFree(started);
    await liveMatched(started);
  });

  test('are also those that are plugged in later: no driver is started anew', async (t) => {
    await using started = await startNode(t, {
      config: configOf("big: { kind: disk, match: { id: 'scsi-late' } }"),
      pools: ['big'],
      disks: [{ name: 'late', sizeGiB: 1 / 16, bus: 'scsi' }],
      // Without a link of udev's it does not match.
      prepare: 'modprobe -a virtio_scsi sd_mod dm_mod && until [ -e /sys/block/sda ]; do sleep 0.1; done',
    });
    const { disks, node } = started;
    const late = disks.find(({ name }) => name === 'late') ?? assert.fail();
    await node.vm.pull(late, new SeededRandom(1));
    await assert.rejects(make(node, 'first', 32n), /RESOURCE_EXHAUSTED.*no disk of node node-1 is of pool big/);
    const writes = late.writes;
    await node.vm.putBack(late);
    await node.vm.run(prepareLinks(1));
    await eventually(async () => assert.equal(taken(node), 1), patienceMs);
    assert.ok(late.writes > writes);
    assert.equal((await make(node, 'first', 32n)).sizeBytes, 60n * mebibyte);
  });
});
