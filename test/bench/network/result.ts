import { z } from 'zod';
import { median } from '../statistics.ts';
import { table } from '../table.ts';

/** peer: the sequence of csi-driver-nfs, and the kernel's mount for reads and writes. */
export const ways = ['peer', 'driver'] as const;
export type Way = (typeof ways)[number];

/** Of both. */
export const mountOptions = 'nfsvers=4.2,hard';

const resultSchema = z.object({
  name: z.string(),
  unit: z.string(),
  way: z.enum(ways),
  round: z.number(),
  rate: z.number(),
});
export const resultsSchema = z.array(resultSchema);
export type NetworkResult = z.infer<typeof resultSchema>;

/** A line for each thing that was measured: the medians, and the median of each round's ratio. */
export function describeNetwork(results: readonly NetworkResult[]): string {
  const names = [...new Set(results.map(({ name }) => name))];
  const rows = names.map((name) => {
    const of = (way: Way) => results.filter((result) => result.name === name && result.way === way);
    const [peer, driver] = [of('peer'), of('driver')];
    const ratios = driver.map(
      ({ rate, round }) => rate / (peer.find((each) => each.round === round)?.rate ?? Number.NaN),
    );
    const shown = (rates: readonly NetworkResult[]) => {
      const value = median(rates.map(({ rate }) => rate));
      return value.toFixed(value < 100 ? 1 : 0);
    };
    return [`${name}, ${driver[0]?.unit}`, shown(peer), shown(driver), median(ratios).toFixed(2)];
  });
  return table(['NFS', "the peer's way", 'the driver', 'ratio'], rows);
}
