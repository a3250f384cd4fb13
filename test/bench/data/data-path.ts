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

/** Volumes, and beside what each is measured. */
const floors = { directory: 'raw', file: 'raw', ext4: 'ext4Disk', xfs: 'xfsDisk' } as const;
type VolumeSite = keyof typeof floors;
export const volumeSites = ['directory', 'file', 'ext4', 'xfs'] as const satisfies readonly VolumeSite[];

const volumes: Readonly<Record<VolumeSite, { readonly pool: string; readonly fsType: string }>> = {
  directory: { pool: 'directory', fsType: 'ext4' },
  file: { pool: 'file', fsType: 'ext4' },
  ext4: { pool: 'device', fsType: 'ext4' },
  xfs: { pool: 'device', fsType: 'xfs' },
};

/**
 * Where data is written: on the filesystem that everything lies on and in volumes on it; on ext4 and XFS on a disk each, and in
 * volumes with the same filesystems in a pool on such a disk. A disk is a loop device over a file whose blocks are all taken.
 */
const sites = ['raw', 'directory', 'file', 'ext4Disk', 'ext4', 'xfsDisk', 'xfs'] as const;
type Site = (typeof sites)[number];
const rawDisks = { ext4Disk: 'ext4', xfsDisk: 'xfs' } as const;

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

const flushSites = ['ext4Disk', 'ext4', 'xfsDisk', 'xfs'] as const;
type FlushSite = (typeof flushSites)[number];

/** What one durable write of 4 KiB costs a disk, if the one before was a while ago. */
export interface FlushResult {
  readonly name: string;
  readonly flushes: Readonly<Record<FlushSite, number>>;
}

export interface DataResult {
  readonly rates: readonly DataPathResult[];
  readonly flushes: readonly FlushResult[];
}

const ext4Sites = ['directory', 'file', 'ext4Disk', 'ext4'] as const satisfies readonly Site[];
const xfsSites = ['xfsDisk', 'xfs'] as const satisfies readonly Site[];
/**
 * Calls of fsync(2) until a filesystem of this size has used each block of its journal once: three blocks of 32 MiB for each in ext4,
 * one of 64 MiB in XFS. In a thin volume a block that is used for the first time is one or two more flushes, so the first minute is no
 * measure of the years after it.
 */
const [ext4Lap, xfsLap] = [2_800, 17_000];
const diskBytes = 4n << 30n;
/** A tick of the kernel's clock for times of files: without another time of change, fsync(2) has nothing for the journal. */
const tickMs = 4.1;
/** Longer than that, as most disks without protection against power loss take. */
const pauseMs = 12;
const thinking = `--thinktime=${pauseMs * 1000}`;
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
  const poolDisk = newDisk(scratch, 'pool-disk.img');
  const places = new DriverPlaces(scratch, [`device: { device: ${poolDisk}, overcommit: 100 }`]);
  await using driver = new DriverProcess(places, bundle);
  await awaitReady(driver, places);
  using client = connectDriver(places.socket);
  const directories: Record<Site, string> = {
    raw: scratch.join('raw'),
    ext4Disk: scratch.join('ext4-disk'),
    xfsDisk: scratch.join('xfs-disk'),
    ...{ directory: '', file: '', ext4: '', xfs: '' },
  };
  const disks: Record<FlushSite, string> = { ext4: poolDisk, xfs: poolDisk, ext4Disk: '', xfsDisk: '' };
  mkdirSync(directories.raw);
  for (const site of ['ext4Disk', 'xfsDisk'] as const) {
    disks[site] = newDisk(scratch, `${site}.img`);
    mkdirSync(directories[site]);
    await run(`mkfs.${rawDisks[site]}`, ['-q', disks[site]]);
    await run('mount', [disks[site], directories[site]]);
  }
  const published: Published[] = [];
  try {
    for (const site of volumeSites) {
      const volume = await publish({ client, places }, site);
      published.push(volume);
      directories[site] = volume.targetPath;
    }
    for (const site of sites)
      await fio(directories[site], ['--rw=write', '--bs=1M', '--direct=1', '--end_fsync=1'], signal);
    say(`a lap of each journal, ${Math.ceil((xfsLap * tickMs) / 60_000)} minutes or more`);
    const lap = (calls: number, thinkMs: number) => [
      ...['--rw=randwrite', '--bs=4k', '--ioengine=psync', '--fsync=1', `--io_size=${calls * 4096}`],
      `--thinktime=${thinkMs * 1000}`,
    ];
    await Promise.all([
      ...ext4Sites.map((site) => fio(directories[site], lap(ext4Lap, pauseMs), signal)),
      ...xfsSites.map((site) => fio(directories[site], lap(xfsLap, tickMs), signal)),
    ]);
    const results: DataPathResult[] = [];
    for (const [index, job] of fioJobs.entries()) {
      say(`${job.name} (${index + 1} of ${fioJobs.length})`);
      const rates = bySite<Site, number[]>(sites, () => []);
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
    say('flushes of the disk');
    const flushes: FlushResult[] = [];
    for (const [name, job] of Object.entries(flushJobs)) {
      const count = async (site: FlushSite) => {
        const isAppended = name.startsWith('appended');
        const filename = join(directories[site], isAppended ? 'appended' : 'fio.data');
        const parameters = ['--bs=4k', '--ioengine=psync', `--io_size=${flushedWrites * 4096}`, ...job];
        const before = flushesOf(disks[site]);
        await run('fio', [...fioArguments, `--filename=${filename}`, thinking, ...parameters], { signal });
        return (flushesOf(disks[site]) - before) / flushedWrites;
      };
      const counts: [FlushSite, number][] = [];
      for (const site of flushSites) counts.push([site, await count(site)]);
      // An entry for each was just made.
      flushes.push({ name, flushes: Object.fromEntries(counts) as Record<FlushSite, number> });
    }
    return { rates: results, flushes };
  } finally {
    for (const volume of published) await remove(client, volume);
  }
}

export function describeDataPath({ flushes, rates }: DataResult): string {
  const rows = rates.map(({ name, rate, ratio, unit }) => [
    name,
    ...[rate.raw, rate.ext4Disk, rate.xfsDisk].map((each) => `${each.toFixed(0)} ${unit}`),
    ...volumeSites.map((site) => ratio[site].toFixed(2)),
  ]);
  const raw = ['raw filesystem', 'ext4 on a disk', 'XFS on a disk'];
  const inDevicePool = ['ext4 in a device pool', 'XFS in a device pool'];
  const counts = flushes.map((each) => [each.name, ...flushSites.map((site) => each.flushes[site].toFixed(1))]);
  const counted = ['ext4 on a disk', 'ext4 in a device pool', 'XFS on a disk', 'XFS in a device pool'];
  return `${table(['data path (fio)', ...raw, 'in a directory pool', 'in a file pool', ...inDevicePool], rows)}

${table([`flushes of the disk for each 4 KiB, ${pauseMs} ms apart`, ...counted], counts)}`;
}

/** It takes a quarter of an hour. */
function say(part: string): void {
  process.stderr.write(`data path: ${part}\n`);
}

function bySite<S extends string, T>(names: readonly S[], make: (site: S) => T): Record<S, T> {
  // An entry for each name was just made.
  return Object.fromEntries(names.map((site) => [site, make(site)])) as Record<S, T>;
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
  site: VolumeSite,
): Promise<Published> {
  const { fsType: fs_type, pool } = volumes[site];
  const volume_capability = { ...capability, mount: { fs_type } };
  const stagingPath = join(places.kubelet, 'plugins', `data-${site}`, 'globalmount');
  const pod = join(places.kubelet, 'pods', `data-${site}`);
  mkdirSync(stagingPath, { recursive: true });
  mkdirSync(pod, { recursive: true });
  const { volume } = await client.controller.CreateVolume({
    name: `data-${site}`,
    capacity_range: { required_bytes: BigInt(volumeBytes) },
    volume_capabilities: [volume_capability],
    parameters: { pool },
  });
  const volumeId = volume?.volume_id ?? '';
  const targetPath = join(pod, 'mount');
  const staged = { volume_id: volumeId, staging_target_path: stagingPath, volume_capability };
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
