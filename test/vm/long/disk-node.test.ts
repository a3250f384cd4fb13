import { describe, test } from 'node:test';
import { adoptionSetup, liveAdopted } from '../disk-kind/adopted-life.ts';
import { live, setup } from '../disk-kind/life.ts';
import { startNode } from '../node/start-node.ts';

describe('a node whose disks are volumes', () => {
  test('volumes live through a driver that is killed, a reboot, and a disk that is pulled, replaced and put back', async (t) => {
    await using started = await startNode(t, setup);
    await live(started);
  });

  test('a filesystem of somebody else is adopted as docs/disks.md has it, lives through a reboot, and is released', async (t) => {
    await using started = await startNode(t, adoptionSetup);
    await liveAdopted(started);
  });
});
