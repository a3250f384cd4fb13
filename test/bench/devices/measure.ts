import assert from 'node:assert/strict';
import type { VirtualMachine } from '../../vm/machine/virtual-machine.ts';
import { type FioJob, fioArguments, fioJobs, rateOf } from '../fio.ts';
import { median } from '../statistics.ts';
import { startDevicesNode } from './devices-node.ts';
import { comparisons, type Disk, diskNames, disks, type Site, sites, type VolumeSite, volumeSites } from './sites.ts';

export interface DevicesPlan {
  readonly rounds: number;
  /** Of the machine's own time, for each run of fio. */
  readonly milliseconds: number;
}

/** A volume beside what its user would have without the driver, and beside the same layers made by hand. */
export interface Ratios {
  readonly without: number;
  readonly byHand: number;
}

export interface DeviceResult {
  readonly disk: Disk;
  readonly name: string;
  readonly unit: FioJob['unit'];
  /** The median over the rounds. */
  readonly rate: Readonly<Record<Site, number>>;
  /** The median of what each round has said, so that what slows down a whole round counts on both sides. */
  readonly ratios: Readonly<Record<VolumeSite, Ratios>>;
}

/** What each site is read and written of: less than the smallest has. */
const extentMiB = 64;

/** fio(1) on block volumes and on what lies below them, in turn, job by job, in a virtual machine. */
export async function measureDevices(
  { milliseconds, rounds }: DevicesPlan,
  say: (text: string) => void,
): Promise<DeviceResult[]> {
  await using started = await startDevicesNode();
  const { vm } = started.node;
  const { paths } = started;
  await assertSameCipher(vm);
  const fio = (site: Site, words: readonly string[]) =>
    vm.run(['fio', ...fioArguments, `--filename=${paths[site]}`, `--size=${extentMiB}M`, ...words].join(' '));
  for (const site of sites) await fio(site, ['--rw=write', '--bs=1M', '--direct=1', '--end_fsync=1']);
  const results: DeviceResult[] = [];
  for (const disk of diskNames) {
    await vm.run(disks[disk]);
    for (const job of fioJobs) {
      say(`${job.name}, the disk ${disk}`);
      const found: Record<Site, number>[] = [];
      for (let round = 0; round < rounds; round++) {
        const rates = new Map<Site, number>();
        // There and back: whatever grows during the rounds is nobody's advantage.
        for (const site of round % 2 === 0 ? sites : sites.toReversed()) {
          const timed = [
            ...job.arguments,
            '--direct=1',
            '--time_based',
            `--runtime=${milliseconds}ms`,
            '--ramp_time=100ms',
          ];
          rates.set(site, rateOf(job, await fio(site, timed)));
        }
        found.push(Object.fromEntries(rates) as Record<Site, number>);
      }
      results.push({ disk, name: job.name, unit: job.unit, ...summary(found) });
    }
  }
  return results;
}

function summary(rounds: readonly Record<Site, number>[]): Pick<DeviceResult, 'rate' | 'ratios'> {
  const middle = (of: (round: Record<Site, number>) => number) => median(rounds.map(of));
  const rate = Object.fromEntries(sites.map((site) => [site, middle((round) => round[site])])) as Record<Site, number>;
  const besides = volumeSites.map((volume) => {
    const beside = (other: Site) => middle((round) => round[volume] / round[other]);
    const { byHand, without } = comparisons[volume];
    return [volume, { without: beside(without), byHand: beside(byHand) }] as const;
  });
  const ratios = Object.fromEntries(besides) as Record<VolumeSite, Ratios>;
  return { rate, ratios };
}

/** Each dm-crypt has the same cipher, sector size and options as the driver's. */
async function assertSameCipher(vm: VirtualMachine): Promise<void> {
  const tables = (await vm.run('dmsetup table --target crypt')).trim().split('\n');
  assert.equal(tables.length, 3, tables.join('\n'));
  // NAME: START LENGTH crypt CIPHER KEY IV-OFFSET DEVICE OFFSET OPTION…
  const parameters = tables.map((line) => {
    const [, , , , cipher, , , , , ...options] = line.split(' ');
    return [cipher, ...options].join(' ');
  });
  assert.equal(new Set(parameters).size, 1, parameters.join('\n'));
}
