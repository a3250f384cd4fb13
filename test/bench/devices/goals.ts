import type { Goal } from '../goal.ts';
import type { DeviceResult } from './measure.ts';
import { comparisons, volumeSites } from './sites.ts';

const share = 0.97;

/**
 * On a disk that takes its time, a volume is as fast as what its user would have without the driver. Where only the
 * layers take time, it is as fast as the same layers made by hand.
 */
export function judgeDevices(results: readonly DeviceResult[]): Goal[] {
  return results.flatMap(({ disk, name, ratios }) =>
    volumeSites.map((volume) => {
      const isTimed = disk === 'takes its time';
      const measured = isTimed ? ratios[volume].without : ratios[volume].byHand;
      const other = isTimed ? comparisons[volume].without : `${comparisons[volume].byHand} by hand`;
      return {
        name: `${volume}, ${name}, the disk ${disk}: of ${other} (at least ${share})`,
        measured: measured.toFixed(3),
        met: measured >= share,
      };
    }),
  );
}
