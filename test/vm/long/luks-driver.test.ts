import { describe, test } from 'node:test';
import { type EncryptedPlace, groupPlace, imagePlace } from '../luks/places.ts';
import { liveEncrypted } from '../luks/whole-driver.ts';
import { startNode } from '../node/start-node.ts';

const places: Readonly<Record<string, EncryptedPlace>> = { images: imagePlace, 'logical volumes': groupPlace };

describe('encryption with LUKS through the whole driver', () => {
  for (const [name, place] of Object.entries(places)) {
    test(`X01: over ${name}, keys come from Secrets, and are found nowhere else`, async (t) => {
      await using node = await startNode(t, place.setup);
      await liveEncrypted(node, place);
    });
  }
});
