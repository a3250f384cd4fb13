import { describe, test } from 'node:test';
import { diskScene } from '../disk-kind/power-scene.ts';
import { cutsAskedFor, cutUnderLoad } from '../power/cut-under-load.ts';

describe('T01 T02 T06: power cuts under load, on disks that are volumes', () => {
  test('what was acknowledged is there, and nothing half done', (t) => cutUnderLoad(t, diskScene, cutsAskedFor(10)));
});
