import { describe, test } from 'node:test';
import { live, setup } from '../disk-kind/life.ts';
import { startNode } from '../node/start-node.ts';

describe('a node whose disks are volumes', () => {
  test('volumes live through a driver that is killed, a reboot, and a disk that is pulled, replaced and put back', async (t) => {
    await using started = await startNode(t, setup);
    await live(started);
  });
});
