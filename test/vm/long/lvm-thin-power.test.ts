import { describe, test } from 'node:test';
import { thinScene } from '../lvm/power-scene.ts';
import { cutsAskedFor, cutUnderLoad } from '../power/cut-under-load.ts';

describe('T01 T02 T06: power cuts under load, in a thin pool', () => {
  test('what was acknowledged is there, and nothing half done', (t) => cutUnderLoad(t, thinScene, cutsAskedFor(10)));
});
