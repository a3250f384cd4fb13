import { describe, test } from 'node:test';
import { encryptedScene } from '../luks/power-scene.ts';
import { cutsAskedFor, cutUnderLoad } from '../power/cut-under-load.ts';

describe('T01 T02 T06: power cuts under load, in a volume group whose volumes are encrypted', () => {
  test('what was acknowledged is there, and nothing half done', (t) =>
    cutUnderLoad(t, encryptedScene, cutsAskedFor(10)));
});
