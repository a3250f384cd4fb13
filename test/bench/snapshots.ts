import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import type { DriverClient } from '../support/client.ts';
import type { DriverPlaces, DriverProcess } from './driver-process.ts';
import { capability } from './life.ts';
import { median } from './statistics.ts';

const gibibyte = 2 ** 30;

/** A small volume, and one a hundred times its size with many times its data: snapshots of both take the same. */
const volumes = [
  { name: 'small', sizeBytes: gibibyte, writtenBytes: gibibyte / 2 },
  { name: 'large', sizeBytes: 100 * gibibyte, writtenBytes: 5 * gibibyte },
] as const;

type VolumeName = (typeof volumes)[number]['name'];

export interface SnapshotResult {
  readonly cuts: number;
  /** CreateSnapshot as its caller sees it, of a mounted volume: the median. */
  readonly latencyMs: Readonly<Record<VolumeName, number>>;
  /** large / small, cut by cut in turn. */
  readonly ratio: number;
  /** How long a writer to the large volume had to wait for a cut, by the driver's own clock: the median. */
  readonly frozenMs: number;
}

export interface SnapshotOptions {
  readonly places: DriverPlaces;
  readonly driver: DriverProcess;
  readonly client: DriverClient;
  readonly cuts: number;
  readonly signal: AbortSignal;
}

/** Snapshots of mounted volumes in the pool that can share blocks: of quiet ones, then of one that is written to. */
export async function measureSnapshots(options: SnapshotOptions): Promise<SnapshotResult> {
  const { cuts } = options;
  const small = await MountedVolume.make(options, volumes[0]);
  await using _small = small;
  const large = await MountedVolume.make(options, volumes[1]);
  await using _large = large;
  const times: Record<VolumeName, number[]> = { small: [], large: [] };
  // Cut 0 is for caches and compilers.
  for (let cut = 0; cut <= cuts; cut++) {
    for (const [name, volume] of [['small', small] as const, ['large', large] as const]) {
      const elapsedMs = await volume.cut(`quiet-${cut}`);
      if (cut > 0) times[name].push(elapsedMs);
    }
  }
  const latencyMs = { small: median(times.small), large: median(times.large) };
  return {
    cuts,
    latencyMs,
    ratio: latencyMs.large / latencyMs.small,
    frozenMs: await frozenMsWhileWriting(options, large),
  };
}

async function frozenMsWhileWriting({ cuts, driver }: SnapshotOptions, volume: MountedVolume): Promise<number> {
  const before = frozenTimes(driver, volume.id).length;
  const writer = spawn(
    'fio',
    [
      ...['--name=writer', `--directory=${volume.path}`, '--size=256M', '--rw=randwrite', '--bs=4k', '--fsync=32'],
      ...['--ioengine=psync', '--thread', '--time_based', '--runtime=600', '--output=/dev/null'],
    ],
    { stdio: 'ignore' },
  );
  try {
    await once(writer, 'spawn');
    for (let cut = 0; cut < cuts; cut++) await volume.cut(`busy-${cut}`);
  } finally {
    writer.kill('SIGKILL');
    await once(writer, 'exit');
  }
  return median(frozenTimes(driver, volume.id).slice(before));
}

/** The driver logs how long each cut held its writers. */
function frozenTimes(driver: DriverProcess, volumeId: string): number[] {
  return driver
    .output()
    .split('\n')
    .filter((line) => line.includes('"frozen_ms"') && line.includes(volumeId))
    .map((line) => Number(/"frozen_ms":([0-9.]+)/.exec(line)?.[1]));
}

class MountedVolume implements AsyncDisposable {
  readonly id: string;
  readonly path: string;
  readonly #options: SnapshotOptions;

  constructor(options: SnapshotOptions, id: string, path: string) {
    this.#options = options;
    this.id = id;
    this.path = path;
  }

  static async make(options: SnapshotOptions, plan: (typeof volumes)[number]): Promise<MountedVolume> {
    const { client, places } = options;
    const { volume } = await client.controller.CreateVolume({
      name: `snapshots-${plan.name}`,
      capacity_range: { required_bytes: BigInt(plan.sizeBytes) },
      volume_capabilities: [capability],
      parameters: { pool: 'file' },
    });
    const id = volume?.volume_id ?? '';
    const path = join(places.kubelet, `snapshots-${plan.name}`);
    mkdirSync(path);
    await client.node.NodeStageVolume({ volume_id: id, staging_target_path: path, volume_capability: capability });
    const made = new MountedVolume(options, id, path);
    await made.#fill(plan.writtenBytes);
    return made;
  }

  /** Cuts a snapshot and deletes it. Yields the milliseconds of the cut. */
  async cut(name: string): Promise<number> {
    const { client, signal } = this.#options;
    signal.throwIfAborted();
    const start = performance.now();
    const { snapshot } = await client.controller.CreateSnapshot({
      name: `${name}-${this.id}`,
      source_volume_id: this.id,
    });
    const elapsedMs = performance.now() - start;
    await client.controller.DeleteSnapshot({ snapshot_id: snapshot?.snapshot_id ?? '' });
    return elapsedMs;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { client } = this.#options;
    await client.node.NodeUnstageVolume({ volume_id: this.id, staging_target_path: this.path });
    await client.controller.DeleteVolume({ volume_id: this.id });
  }

  async #fill(bytes: number): Promise<void> {
    const piece = Buffer.alloc(2 ** 24, 1);
    await using file = await open(join(this.path, 'data'), 'w');
    for (let written = 0; written < bytes; written += piece.length) await file.write(piece);
    await file.sync();
  }
}
