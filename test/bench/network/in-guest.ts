/*
 * Runs in the virtual machine with the kernel's NFS server: volumes made and deleted by the driver and by the sequence of
 * csi-driver-nfs; reads and writes through a volume and through a mount made by hand. Prints its results as JSON.
 * node in-guest.mjs BUNDLE ROUNDS VOLUMES
 */
import { execFile } from 'node:child_process';
import { chmod, mkdir, mkdtemp, readdir, rm, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { DriverClient } from '../../support/client.ts';
import { DriverProcess } from '../../support/driver.ts';
import { testExport } from '../../support/nfs-pool.ts';
import { Scratch } from '../../support/scratch.ts';
import { fioArguments, fioJobs, rateOf } from '../fio.ts';
import { mountOptions, type NetworkResult, type Way, ways } from './result.ts';

const run = promisify(execFile);
const [, , bundle = '', rounds = '', volumes = ''] = process.argv;
const { host, share } = testExport;
/** The same for both, as in a class of either driver. */
const source = `${host}:${share}`;
const trash = `/srv/files${share}/holdfast/trash`;
const deadlineMs = 600_000;
const capability = {
  access_type: 'mount',
  mount: { fs_type: 'nfs4' },
  access_mode: { mode: 'MULTI_NODE_MULTI_WRITER' },
} as const;

/** Volumes as one driver makes and deletes them. */
interface Maker {
  create(name: string): Promise<unknown>;
  /** Resolves when nothing of them is left on the server. */
  settle(): Promise<void>;
  delete(name: string): Promise<unknown>;
}

/** As pkg/nfs/controllerserver.go: the share is mounted privately for each call. */
class PrivateMounts implements Maker {
  readonly #directory: string;

  constructor(directory: string) {
    this.#directory = directory;
  }

  create(name: string): Promise<void> {
    return this.#mounted(name, async (path) => {
      await mkdir(path, { recursive: true, mode: 0o777 });
      await chmod(path, 0o777);
    });
  }

  delete(name: string): Promise<void> {
    return this.#mounted(name, (path) => rm(path, { recursive: true, force: true }));
  }

  async settle(): Promise<void> {}

  async #mounted(name: string, work: (path: string) => Promise<unknown>): Promise<void> {
    const target = join(this.#directory, name);
    await mkdir(target, { recursive: true, mode: 0o750 });
    await run('mount', ['-t', 'nfs', '-o', mountOptions, source, target]);
    await work(join(target, 'theirs', name));
    await run('umount', [target]);
    await rmdir(target);
  }
}

class Driver implements Maker {
  readonly #client: DriverClient;
  readonly #ids = new Map<string, string>();

  constructor(client: DriverClient) {
    this.#client = client;
  }

  async create(name: string): Promise<Record<string, string>> {
    const { volume } = await this.#client.controller.CreateVolume(
      { name, capacity_range: { required_bytes: 1n << 20n }, volume_capabilities: [capability] },
      { deadlineMs },
    );
    if (volume === null) throw new Error('no volume');
    this.#ids.set(name, volume.volume_id);
    return { ...volume.volume_context, volume_id: volume.volume_id };
  }

  async delete(name: string): Promise<void> {
    await this.#client.controller.DeleteVolume({ volume_id: this.#ids.get(name) ?? '' }, { deadlineMs });
  }

  async settle(): Promise<void> {
    while ((await readdir(trash)).length > 0) await delay(2);
  }
}

async function rate(
  names: readonly string[],
  callers: number,
  work: (name: string) => Promise<unknown>,
  settle = async () => {},
) {
  const left = [...names];
  const startedMs = performance.now();
  const caller = async () => {
    for (let name = left.shift(); name !== undefined; name = left.shift()) await work(name);
  };
  await Promise.all(Array.from({ length: callers }, caller));
  await settle();
  return (names.length * 1000) / (performance.now() - startedMs);
}

async function fio(directory: string, words: readonly string[]): Promise<string> {
  const { stdout } = await run('fio', [...fioArguments, `--directory=${directory}`, '--size=32M', ...words]);
  return stdout;
}

const results: NetworkResult[] = [];
using scratch = new Scratch('bench-network');
const config = `attach: required\npools:\n  files: { kind: nfs, server: ${host}, share: ${share}, sickAfter: 10m }\n`;
await using driver = await DriverProcess.start(scratch, { command: [process.execPath, bundle], config });
using client = driver.connect();
const ours = new Driver(client);
const makers: Readonly<Record<Way, Maker>> = {
  peer: new PrivateMounts(await mkdtemp(scratch.join('theirs-'))),
  driver: ours,
};
for (const callers of [1, 8]) {
  for (let round = 0; round < Number(rounds); round++) {
    // There and back: whatever grows during the rounds is nobody's advantage.
    for (const way of round % 2 === 0 ? ways : ways.toReversed()) {
      const maker = makers[way];
      const names = Array.from({ length: Number(volumes) }, (_, index) => `v-${way}-${callers}-${round}-${index}`);
      const created = await rate(names, callers, (name) => maker.create(name));
      const deleted = await rate(
        names,
        callers,
        (name) => maker.delete(name),
        () => maker.settle(),
      );
      for (const [name, value] of [
        ['create', created],
        ['delete', deleted],
      ] as const) {
        results.push({ name: `${name}, ${callers} at a time`, unit: 'a second', way, round, rate: value });
      }
    }
  }
}

const { volume_id = '', ...volume_context } = await ours.create('data');
const staging_target_path = join(driver.kubeletDirectory, 'staging');
const target_path = join(driver.kubeletDirectory, 'target');
const byHand = scratch.join('by-hand');
for (const path of [staging_target_path, byHand]) await mkdir(path, { recursive: true });
const volume_capability = { ...capability, mount: { fs_type: 'nfs4', mount_flags: mountOptions.split(',') } };
const call = { volume_id, volume_context, volume_capability, staging_target_path };
await client.node.NodeStageVolume(call, { deadlineMs });
await client.node.NodePublishVolume({ ...call, target_path }, { deadlineMs });
await run('mount', ['-t', 'nfs', '-o', mountOptions, source, byHand]);
const directories: Readonly<Record<Way, string>> = { peer: join(byHand, 'io'), driver: target_path };
await mkdir(directories.peer);
for (const way of ways) await fio(directories[way], ['--rw=write', '--bs=1M', '--direct=1']);
for (const job of fioJobs) {
  for (let round = 0; round < Number(rounds); round++) {
    for (const way of round % 2 === 0 ? ways : ways.toReversed()) {
      const timed = [...job.arguments, '--time_based', '--runtime=300ms', '--ramp_time=100ms'];
      const value = rateOf(job, await fio(directories[way], timed));
      results.push({ name: job.name, unit: job.unit, way, round, rate: value });
    }
  }
}
await rm(directories.peer, { recursive: true });
await run('umount', [byHand]);
await client.node.NodeUnpublishVolume({ volume_id, target_path }, { deadlineMs });
await client.node.NodeUnstageVolume({ volume_id, staging_target_path }, { deadlineMs });
await ours.delete('data');
console.log(`RESULTS ${JSON.stringify(results)}`);
