import assert from 'node:assert/strict';
import { pino } from 'pino';
import type { Attach, Expansion } from '../../src/controller/capabilities.ts';
import { controllerService } from '../../src/controller/service.ts';
import { groupControllerService } from '../../src/controller/snapshots/group-service.ts';
import { addServices } from '../../src/csi/call.ts';
import type * as wire from '../../src/csi/generated/types.ts';
import type { Draft } from '../../src/csi/handler.ts';
import { type Listener, listen, newServer } from '../../src/csi/listener.ts';
import { identityService } from '../../src/identity/service.ts';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { nodeService } from '../../src/node/service.ts';
import type { Pool } from '../../src/pool/pool.ts';
import { type PoolOpener, Pools } from '../../src/pool/pools.ts';
import { ObjectQueue } from '../../src/volume/flow/object-queue.ts';
import type { Labels } from '../../src/volume/labels.ts';
import { CallError, connectDriver, type DriverClient } from '../support/client.ts';
import { type ImageTestOptions, openTestPool } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';

export const nodeId = 'node-1';
export const here = { 'topology.holdfast.dev/node': nodeId };
export const mebibyte = 1n << 20n;
export const gibibyte = 1n << 30n;

export interface TestDriverOptions {
  /** The pools by name, the first one the default; without a location of its own a pool is a directory. */
  readonly pools?: Readonly<Record<string, ImageTestOptions>>;
  /** What pools without a location of their own lie in: a directory of the host, or XFS in a file, which shares blocks. */
  readonly locations?: 'directory' | 'file';
  readonly expansion?: Expansion;
  readonly attach?: Attach;
  readonly maxVolumesPerNode?: number;
  /** Another node's driver, on the same pools. */
  readonly nodeId?: string;
  /** What is said of pools, for classes to choose by. */
  readonly labels?: Readonly<Record<string, Labels>>;
  /** Sections that stand for several pools, by the names of these. */
  readonly sections?: Readonly<Record<string, string>>;
  /** Pools that fail to open, and why. */
  readonly failing?: Readonly<Record<string, string>>;
  /** Pools that open when this is done; the driver starts without waiting for any. */
  readonly slow?: Readonly<Record<string, Promise<void>>>;
  /** Where tools are looked for; the PATH of the test unless given. */
  readonly searchPath?: string;
  /** How long unequal calls on one volume wait for each other: the driver's own time would only make tests slow. */
  readonly patienceMs?: number;
}

/** The whole driver but its configuration on a socket, over real pools in a directory of their own. */
export class TestDriver implements AsyncDisposable {
  readonly scratch: Scratch;
  readonly pools: Pools;
  readonly objects: ObjectQueue;
  readonly client: DriverClient;
  /** What was logged, a line each. */
  readonly log: readonly string[];
  readonly #listener: Listener;
  #isStopped = false;

  private constructor(
    scratch: Scratch,
    pools: Pools,
    objects: ObjectQueue,
    client: DriverClient,
    log: readonly string[],
    listener: Listener,
  ) {
    this.scratch = scratch;
    this.pools = pools;
    this.objects = objects;
    this.client = client;
    this.log = log;
    this.#listener = listener;
  }

  static async start(options: TestDriverOptions = {}, scratch = new Scratch('controller')): Promise<TestDriver> {
    const openers = openersOf(options, scratch);
    const labels = (name: string) => options.labels?.[name] ?? {};
    const { sections = {} } = options;
    const pools = new Pools(openers, [...openers.keys()][0] ?? '', {
      labels,
      sectionOf: (name) => sections[name],
      sections: Object.values(sections),
    });
    const opened = pools.open();
    if (options.slow === undefined) await opened;
    try {
      return await TestDriver.#serve(options, scratch, pools);
    } catch (error) {
      using _scratch = scratch;
      await pools.close();
      throw error;
    }
  }

  static async #serve(options: TestDriverOptions, scratch: Scratch, pools: Pools): Promise<TestDriver> {
    const { attach = 'none', expansion = 'controller', maxVolumesPerNode = 0, patienceMs = 200 } = options;
    const searchPath = options.searchPath ?? process.env['PATH'] ?? '';
    const id = options.nodeId ?? nodeId;
    const topology = { ...here, 'topology.holdfast.dev/node': id };
    const objects = new ObjectQueue(patienceMs);
    const log: string[] = [];
    const server = newServer();
    addServices(
      server,
      {
        identity: identityService({
          name: 'holdfast.csi.dev',
          version: '0.0.0-test',
          pools,
          searchPath,
        }),
        controller: controllerService({ nodeId: id, topology, pools, objects, expansion, attach, maxVolumesPerNode }),
        groupController: groupControllerService({ nodeId: id, pools, objects }),
        node: nodeService({
          nodeId: id,
          topology,
          pools,
          objects,
          targetRoots: [scratch.join('kubelet')],
          notes: { directory: scratch.join('node') },
          queue: new DiskQueue('kubelet', 4),
          attachRequired: attach === 'required',
          maxVolumesPerNode,
        }),
      },
      { log: pino({ level: 'debug' }, { write: (line) => log.push(line) }) },
    );
    const socketPath = scratch.join('csi.sock');
    const listener = await listen(server, socketPath);
    return new TestDriver(scratch, pools, objects, connectDriver(socketPath), log, listener);
  }

  get controller(): DriverClient['controller'] {
    return this.client.controller;
  }

  /** The pool of that name, for what a node would do with it. */
  pool(name = 'main'): Pool {
    return this.pools.get(name);
  }

  /** Ends this driver in order; its files stay for the next one, and to dispose of this one does nothing more. */
  async stop(): Promise<Scratch> {
    this.#isStopped = true;
    this.client.close();
    await this.#listener.close(10_000);
    await this.pools.close();
    return this.scratch;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#isStopped) return;
    using _scratch = this.scratch;
    await this.stop();
  }
}

function openersOf({ pools = { main: {} }, failing, locations, slow }: TestDriverOptions, scratch: Scratch) {
  const locationOf = (name: string) =>
    locations === 'file'
      ? ({ type: 'file', path: scratch.join(`${name}.img`), sizeBytes: 4n * gibibyte } as const)
      : ({ type: 'directory', path: scratch.join(name) } as const);
  const openers = new Map<string, PoolOpener>();
  for (const [name, options] of Object.entries(pools)) {
    openers.set(name, async () => {
      await slow?.[name];
      const reason = failing?.[name];
      if (reason !== undefined) throw new Error(reason);
      return openTestPool(scratch, { name, location: locationOf(name), ...options });
    });
  }
  return openers;
}

/** A capability to mount; the filesystem is left to the driver unless named. */
export function mount(
  fs_type = '',
  mode: wire.VolumeCapabilityAccessModeMode = 'SINGLE_NODE_WRITER',
): Draft<wire.VolumeCapability> {
  return { mount: { fs_type }, access_mode: { mode } };
}

/** A capability to use a raw device. */
export function block(mode: wire.VolumeCapabilityAccessModeMode = 'SINGLE_NODE_WRITER'): Draft<wire.VolumeCapability> {
  return { block: {}, access_mode: { mode } };
}

/** A CreateVolumeRequest for a raw block volume of 16 MiB, or what the changes make of it. */
export function create(name: string, changes: Draft<wire.CreateVolumeRequest> = {}): Draft<wire.CreateVolumeRequest> {
  return {
    name,
    capacity_range: { required_bytes: 16n * mebibyte },
    volume_capabilities: [block()],
    ...changes,
  };
}

/** The volume of an answer; every answer about a volume has one. */
export function volumeOf(response: { readonly volume: wire.Volume | null }): wire.Volume {
  if (response.volume === null) throw new Error('the response has no volume');
  return response.volume;
}

/** Asserts that a call fails with this code, and with a message that says so. */
export async function fails(call: Promise<unknown>, code: string, message = /./): Promise<void> {
  await assert.rejects(call, (error) => {
    assert.ok(error instanceof CallError, String(error));
    assert.equal(error.code, code, error.message);
    assert.match(error.message, message);
    return true;
  });
}

/** Makes a volume; its id. */
export async function makeVolume(driver: TestDriver, request: Draft<wire.CreateVolumeRequest>): Promise<string> {
  return volumeOf(await driver.controller.CreateVolume(request)).volume_id;
}

/** The snapshot of an answer; every answer about a snapshot has one. */
export function snapshotOf(response: { readonly snapshot: wire.Snapshot | null }): wire.Snapshot {
  if (response.snapshot === null) throw new Error('the response has no snapshot');
  return response.snapshot;
}

/** Cuts a snapshot; its id. */
export async function makeSnapshot(driver: TestDriver, source_volume_id: string, name: string): Promise<string> {
  return snapshotOf(await driver.controller.CreateSnapshot({ source_volume_id, name })).snapshot_id;
}

/** A content source, for a CreateVolumeRequest. */
export const fromSnapshot = (snapshot_id: string): Draft<wire.VolumeContentSource> => ({ snapshot: { snapshot_id } });
export const fromVolume = (volume_id: string): Draft<wire.VolumeContentSource> => ({ volume: { volume_id } });

/** A promise that the test settles by hand. */
export function gate(): { readonly opened: Promise<void>; open(): void } {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open: () => open() };
}

/** The ids of all volumes. */
export async function listIds({ controller }: TestDriver): Promise<string[]> {
  const { entries } = await controller.ListVolumes({});
  return entries.map((entry) => volumeOf(entry).volume_id);
}
