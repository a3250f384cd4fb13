import { describe, test } from 'node:test';
import { liveEncrypted, setup } from '../luks/whole-driver.ts';
import { startNode } from '../node/start-node.ts';

describe('encryption with LUKS through the whole driver', () => {
  test('X01: keys come from Secrets, and are found nowhere else', async (t) => {
    await using node = await startNode(t, setup);
    await liveEncrypted(node);
  });
});
