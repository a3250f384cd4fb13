import { table } from '../table.ts';
import type { DeviceResult } from './measure.ts';
import { comparisons, diskNames, sites, volumeSites } from './sites.ts';

/** The rates of each site, then what the volumes reach of them, for people. */
export function describeDevices(results: readonly DeviceResult[] | string): string {
  if (typeof results === 'string') return `Block volumes: ${results}`;
  return diskNames
    .flatMap((disk) => {
      const of = results.filter((result) => result.disk === disk);
      const rates = of.map(({ name, rate, unit }) => [
        `${name}, ${unit}`,
        ...sites.map((site) => rate[site].toFixed(0)),
      ]);
      const shares = of.map(({ name, ratios }) => [
        name,
        ...volumeSites.flatMap((volume) => [ratios[volume].without.toFixed(3), ratios[volume].byHand.toFixed(3)]),
      ]);
      const heads = volumeSites.flatMap((volume) => {
        const { byHand, without } = comparisons[volume];
        return [`${volume} of ${without}`, `of ${byHand} by hand`];
      });
      return [
        table([`block volumes (fio), the disk ${disk}`, ...sites], rates),
        table([`the disk ${disk}`, ...heads], shares),
      ];
    })
    .join('\n\n');
}
