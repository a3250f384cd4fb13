import { execFile, execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { connectDriver, type DriverClient } from '../../support/client.ts';
import { attachDisk, flushesOf } from '../../support/disk.ts';
import { Scratch } from '../../support/scratch.ts';
import { DriverPlaces, DriverProcess } from '../driver-process.ts';
import { type FioJob, fioArguments, fioJobs, rateOf } from '../fio.ts';
import { capability, volumeBytes } from '../life.ts';
import { awaitReady } from '../startup.ts';
import { median } from '../statistics.ts';
import { table } from '../table.ts';

const run = promisify(execFile);

/** Places of volumes, and beside what each is measured. */
const floors = { directory: 'raw', file: 'raw', device: 'rawDisk' } as const;
type VolumeSite = keyof typeof floors;
export const volumeSites = ['directory', 'file', 'device'] as const satisfies readonly VolumeSite[];

/**
 * Where data is written: on the filesystem that everything lies on and in volumes on it; on XFS on a disk, and in a volume
 * on such a disk. A disk is a loop device over a file whose blocks are all taken.
 */
const sites = ['raw', 'directory', 'file', 'rawDisk', 'device'] as const;
type Site = (typeof sites)[number];

export interface DataPathResult {
  readonly name: string;
  readonly unit: FioJob['unit'];
  /** Medians over the rounds. */
  readonly rate: Readonly<Record<Site, number>>;
  /** Of the rate beside it in the same round. */
  readonly ratio: Readonly<Record<VolumeSite, number>>;
}

export interface DataPathPlan {
  readonly rounds: number;
  readonly seconds: number;
}

/** What one durable write of 4 KiB costs a disk, if the one before was a while ago. */
export interface FlushResult {
  readonly name: string;
  readonly flushes: Readonly<Record<'rawDisk' | 'device', number>>;
}

export interface DataResult {
  readonly rates: readonly DataPathResult[];
  readonly flushes: readonly FlushResult[];
}

const diskBytes = 4n << 30n;
/** Longer than a tick of the kernel's clock for times of files, as most disks without protection against power loss take. */
const pauseMs = 12;
const flushedWrites = 100;
const flushJobs = {
  'overwritten, fdatasync': ['--rw=randwrite', '--fdatasync=1', `--size=${volumeBytes / 2}`],
  'overwritten, fsync': ['--rw=randwrite', '--fsync=1', `--size=${volumeBytes / 2}`],
  'appended, fsync': ['--rw=write', '--fsync=1', '--file_append=1', `--size=${flushedWrites * 4096}`],
} as const;

/** fio(1) in a file on each site, in turn, job by job. */
export async function measureDataPath(
  bundle: string,
  { rounds, seconds }: DataPathPlan,
  signal: AbortSignal,
): Promise<DataResult> {
  using scratch = new Scratch('bench-data');
  const disks = { rawDisk: newDisk(scratch, 'raw-disk.img'), device: newDisk(scratch, 'pool-disk.img') };
  const places = new DriverPlaces(scratch, [`device: { device: ${disks.device}, overcommit: 100 }`]);
  await using driver = new DriverProcess(places, bundle);
  await awaitReady(driver, places);
  using client = connectDriver(places.socket);
  const directories: Record<Site, string> = {
    raw: scratch.join('raw'),
    rawDisk: scratch.join('raw-disk'),
    ...{ directory: '', file: '', device: '' },
  };
  for (const directory of [directories.raw, directories.rawDisk]) mkdirSync(directory);
  await run('mkfs.xfs', ['-q', disks.rawDisk]);
  await run('mount', [disks.rawDisk, directories.rawDisk]);
  const volumes: Published[] = [];
  try {
    for (const pool of volumeSites) {
      const volume = await publish({ client, places }, pool);
      volumes.push(volume);
      directories[pool] = volume.targetPath;
    }
    for (const site of sites)
      await fio(directories[site], ['--rw=write', '--bs=1M', '--direct=1', '--end_fsync=1'], signal);
    const results: DataPathResult[] = [];
    for (const job of fioJobs) {
      const rates: Record<Site, number[]> = { raw: [], directory: [], file: [], rawDisk: [], device: [] };
      for (let round = 0; round < rounds; round++) {
        for (const site of round % 2 === 0 ? sites : sites.toReversed()) {
          const timed = ['--time_based', `--runtime=${seconds}`, '--ramp_time=1', ...job.arguments];
          rates[site].push(rateOf(job, await fio(directories[site], timed, signal)));
        }
      }
      const { name, unit } = job;
      const beside = (site: VolumeSite) =>
        median(rates[site].map((rate, round) => rate / (rates[floors[site]][round] ?? Number.NaN)));
      results.push({
        name,
        unit,
        rate: bySite(sites, (site) => median(rates[site])),
        ratio: bySite(volumeSites, beside),
      });
    }
    const flushes: FlushResult[] = [];
    for (const [name, job] of Object.entries(flushJobs)) {
      const count = async (site: keyof typeof disks) => {
        const isAppended = name.startsWith('appended');
        const filename = join(directories[site], isAppended ? 'appended' : 'fio.data');
        const parameters = ['--bs=4k', '--ioengine=psync', `--io_size=${flushedWrites * 4096}`, ...job];
        const before = flushesOf(disks[site]);
        await run('fio', [...fioArguments, `--filename=${filename}`, `--thinktime=${pauseMs * 1000}`, ...parameters], {
          signal,
        });
        return (flushesOf(disks[site]) - before) / flushedWrites;
      };
      flushes.push({ name, flushes: { rawDisk: await count('rawDisk'), device: await count('device') } });
    }
    return { rates: results, flushes };
  } finally {
    for (const volume of volumes) await remove(client, volume);
  }
}

export function describeDataPath({ flushes, rates }: DataResult): string {
  const rows = rates.map(({ name, rate, ratio, unit }) => [
    name,
    ...[rate.raw, rate.rawDisk].map((each) => `${each.toFixed(0)} ${unit}`),
    ...volumeSites.map((site) => ratio[site].toFixed(2)),
  ]);
  const columns = ['raw filesystem', 'XFS on a disk', 'in a directory pool', 'in a file pool', 'in a device pool'];
  const counts = flushes.map((each) => [each.name, each.flushes.rawDisk.toFixed(1), each.flushes.device.toFixed(1)]);
  return `${table(['data path (fio)', ...columns], rows)}

${table([`flushes of the disk for each 4 KiB, ${pauseMs} ms apart`, 'XFS on a disk', 'in a device pool'], counts)}`;
}

function bySite<S extends string>(names: readonly S[], numberOf: (site: S) => number): Record<S, number> {
  // An entry for each name was just made.
  return Object.fromEntries(names.map((site) => [site, numberOf(site)])) as Record<S, number>;
}

/** All its blocks are taken, as on a real disk. @returns its device node */
function newDisk(scratch: Scratch, name: string): string {
  const path = scratch.join(name);
  execFileSync('fallocate', ['--length', `${diskBytes}`, path]);
  return attachDisk(path, '--direct-io=on');
}

/** Half of the volume: what fits into every kind of filesystem on it. */
const fileBytes = volumeBytes / 2;

async function fio(directory: string, parameters: readonly string[], signal: AbortSignal): Promise<string> {
  const target = [`--filename=${join(directory, 'fio.data')}`, `--size=${fileBytes}`];
  const { stdout } = await run('fio', [...fioArguments, ...target, ...parameters], { signal });
  return stdout;
}

interface Published {
  readonly volumeId: string;
  readonly stagingPath: string;
  readonly targetPath: string;
}

async function publish(
  { client, places }: { readonly client: DriverClient; readonly places: DriverPlaces },
  pool: string,
): Promise<Published> {
  const stagingPath = join(places.kubelet, 'plugins', `data-${pool}`, 'globalmount');
  const pod = join(places.kubelet, 'pods', `data-${pool}`);
  mkdirSync(stagingPath, { recursive: true });
  mkdirSync(pod, { recursive: true });
  const { volume } = await client.controller.CreateVolume({
    name: `data-${pool}`,
    capacity_range: { required_bytes: BigInt(volumeBytes) },
    volume_capabilities: [capability],
    parameters: { pool },
  });
  const volumeId = volume?.volume_id ?? '';
  const targetPath = join(pod, 'mount');
  const staged = { volume_id: volumeId, staging_target_path: stagingPath, volume_capability: capability };
  await client.node.NodeStageVolume(staged);
  await client.node.NodePublishVolume({ ...staged, target_path: targetPath });
  return { volumeId, stagingPath, targetPath };
}

async function remove({ controller, node }: DriverClient, volume: Published): Promise<void> {
  const volume_id = volume.volumeId;
  await node.NodeUnpublishVolume({ volume_id, target_path: volume.targetPath });
  await node.NodeUnstageVolume({ volume_id, staging_target_path: volume.stagingPath });
  await controller.DeleteVolume({ volume_id });
}
