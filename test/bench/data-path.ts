import { execFile } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { DriverClient } from '../support/client.ts';
import type { Scratch } from '../support/scratch.ts';
import { type DriverPlaces, pools } from './driver-process.ts';
import { type FioJob, fioArguments, fioJobs, rateOf } from './fio.ts';
import { capability, volumeBytes } from './life.ts';
import { median } from './statistics.ts';

const run = promisify(execFile);

/** Where data is written: on the filesystem that everything lies on, or in a volume of one of the pools. */
export const sites = ['raw', ...pools] as const;
export type Site = (typeof sites)[number];

export interface DataPathResult {
  readonly name: string;
  readonly unit: FioJob['unit'];
  /** The median over the rounds. */
  readonly rate: Readonly<Record<Site, number>>;
}

export interface DataPathOptions {
  readonly scratch: Scratch;
  readonly places: DriverPlaces;
  readonly client: DriverClient;
  readonly rounds: number;
  readonly seconds: number;
  readonly signal: AbortSignal;
}

/** fio(1) in a file on the raw filesystem and in a volume of each pool, in turn, job by job. */
export async function measureDataPath(options: DataPathOptions): Promise<DataPathResult[]> {
  const { scratch, rounds, seconds, signal } = options;
  const directories: Record<Site, string> = { raw: scratch.join('raw'), directory: '', file: '' };
  mkdirSync(directories.raw);
  const volumes: Published[] = [];
  try {
    for (const pool of pools) {
      const volume = await publish(options, pool);
      volumes.push(volume);
      directories[pool] = volume.targetPath;
    }
    for (const site of sites)
      await fio(directories[site], ['--rw=write', '--bs=1M', '--direct=1', '--end_fsync=1'], signal);
    const results: DataPathResult[] = [];
    for (const job of fioJobs) {
      const rates: Record<Site, number[]> = { raw: [], directory: [], file: [] };
      for (let round = 0; round < rounds; round++) {
        for (const site of sites) {
          const timed = ['--time_based', `--runtime=${seconds}`, '--ramp_time=1', ...job.arguments];
          rates[site].push(rateOf(job, await fio(directories[site], timed, signal)));
        }
      }
      const rate = { raw: median(rates.raw), directory: median(rates.directory), file: median(rates.file) };
      results.push({ name: job.name, unit: job.unit, rate });
    }
    return results;
  } finally {
    for (const volume of volumes) await remove(options.client, volume);
  }
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

async function publish({ client, places }: DataPathOptions, pool: string): Promise<Published> {
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
