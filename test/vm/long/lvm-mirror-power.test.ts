import { describe, test } from 'node:test';
import { mirrorScene } from '../lvm/power-scene.ts';
import { cutsAskedFor, cutUnderLoad } from '../power/cut-under-load.ts';

describe('T01 T02 T06: power cuts under load, with mirrors in a volume group', () => {
  test('what was acknowledged is there, and nothing half done', (t) => cutUnderLoad(t, mirrorScene, cutsAskedFor(10)));
});
