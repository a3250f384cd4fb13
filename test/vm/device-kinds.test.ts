import { describe, test } from 'node:test';
import { diskScene } from './disk-kind/power-scene.ts';
import { encryptedScene } from './luks/power-scene.ts';
import { succeedsInGuest } from './lvm/guest.ts';
import { lvmScene, thinScene } from './lvm/power-scene.ts';
import { cutsAskedFor, cutUnderLoad } from './power/cut-under-load.ts';

/* A short run of what `long/` shows at length, for the kinds whose volumes are devices. */

const scenes = {
  'logical volumes': lvmScene,
  'thin volumes': thinScene,
  'disks that are volumes': diskScene,
  'encrypted logical volumes': encryptedScene,
};

describe('T01 T02 T06: a power cut under load', () => {
  for (const [name, scene] of Object.entries(scenes)) {
    test(`${name}: what was acknowledged is there, and nothing half done`, (t) =>
      cutUnderLoad(t, scene, cutsAskedFor(1)));
  }
});

describe('a driver of thin volumes that is killed', () => {
  test('loses nothing, and leaves nothing suspended, in the middle of a snapshot of a volume in use', async (t) => {
    const steps = ['instant/forget', 'instant/suspend', 'instant/take'];
    t.diagnostic(await succeedsInGuest('crash-in-guest.mjs', 'thin', "'snapshot in use'", ...steps));
  });
});
