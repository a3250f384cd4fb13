import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { pino } from 'pino';
import { controllerService } from '../../src/controller/service.ts';
import { addServices } from '../../src/csi/call.ts';
import { type Listener, listen, newServer } from '../../src/csi/listener.ts';
import { clusterPluginCapabilities, identityService } from '../../src/identity/service.ts';
import type { Backend } from '../../src/pool/backend.ts';
import { over } from '../../src/pool/layers/over.ts';
import { Pools } from '../../src/pool/pools.ts';
import { accessModes } from '../../src/volume/capability.ts';
import { ObjectQueue } from '../../src/volume/flow/object-queue.ts';
import { CallError, connectDriver, type DriverClient } from '../support/client.ts';
import { exportKind } from '../support/context-kinds.ts';
import { openTestDirectories } from '../support/directory-pool.ts';
import { mountCapability } from '../support/node-volume.ts';
import { refused } from '../support/refused.ts';
import { Scratch } from '../support/scratch.ts';

/* The home of a pool whose volumes every node can reach: here directories, which any node finds on a server. */

const mebibyte = 1n << 20n;
const shared = mountCapability('MULTI_NODE_MULTI_WRITER', [], 'nfs');
const elsewhere = { requisite: [{ segments: { 'topology.kubernetes.io/zone': 'b' } }], preferred: [] };

function asShared(inner: Backend): Backend {
  return over(inner, {
    traits: { ...inner.traits, accessModes, servedTypes: ['nfs'] },
    cluster: { id: 'an-export', contextOf: ({ id }) => ({ server: 'files.example.org', share: '/a', subDir: id }) },
  });
}

class Home implements AsyncDisposable {
  readonly scratch: Scratch;
  readonly client: DriverClient;
  readonly #listener: Listener;
  readonly #pools: Pools;

  private constructor(scratch: Scratch, client: DriverClient, listener: Listener, pools: Pools) {
    this.scratch = scratch;
    this.client = client;
    this.#listener = listener;
    this.#pools = pools;
  }

  static async start(scratch: Scratch, name = 'files', attach: 'none' | 'required' = 'none'): Promise<Home> {
    const open = () => openTestDirectories(scratch, { layers: [asShared], name });
    const pools = new Pools(new Map([[name, open]]), name);
    await pools.open();
    const controller = controllerService({
      ...{ nodeId: 'cluster', topology: undefined, pools, objects: new ObjectQueue() },
      ...{ expansion: 'controller', attach, maxVolumesPerNode: 0, nodeKinds: [exportKind] },
    });
    const capabilities = clusterPluginCapabilities;
    const identity = identityService({ name: 'files.example.org', version: '1', pools, searchPath: '', capabilities });
    const server = newServer();
    addServices(server, { identity, controller }, { log: pino({ level: 'silent' }) });
    const socketPath = scratch.join('csi.sock');
    const listener = await listen(server, socketPath);
    return new Home(scratch, connectDriver(socketPath), listener, pools);
  }

  create(name: string, changes: Partial<Parameters<DriverClient['controller']['CreateVolume']>[0]> = {}) {
    const capacity_range = { required_bytes: mebibyte };
    return this.client.controller.CreateVolume({ name, capacity_range, volume_capabilities: [shared], ...changes });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.client.close();
    await this.#listener.close(1_000);
    await this.#pools.close();
  }
}

describe('a pool of the cluster', () => {
  let home: Home;
  const scratch = new Scratch('home');
  before(async () => {
    home = await Home.start(scratch);
  });
  after(async () => {
    await home[Symbol.asyncDispose]();
    scratch[Symbol.dispose]();
  });

  test('Y06: a volume has a context that says what it is, and no topology', async () => {
    const { volume } = await home.create('a', { accessibility_requirements: elsewhere });
    const id = volume?.volume_id ?? '';
    assert.deepEqual(volume?.accessible_topology, []);
    assert.deepEqual(volume?.volume_context, {
      ...{ kind: 'directory', version: '1', server: 'files.example.org', share: '/a', subDir: id },
    });
    const again = await home.create('a');
    assert.deepEqual(again.volume, volume);
    const listed = await home.client.controller.ListVolumes({});
    assert.deepEqual(listed.entries[0]?.volume, volume);
    const got = await home.client.controller.ControllerGetVolume({ volume_id: id });
    assert.deepEqual(got.volume, volume);
  });

  test('T03: a home that takes over, under another name of the pool, finds the volume of a name', async () => {
    const { volume } = await home.create('moved');
    await home[Symbol.asyncDispose]();
    home = await Home.start(scratch, 'renamed');
    assert.equal((await home.create('moved')).volume?.volume_id, volume?.volume_id);
  });

  test('A05: several nodes may use a volume if its pool allows it, and as it was made', async () => {
    const { volume } = await home.create('modes', {
      volume_capabilities: [mountCapability('MULTI_NODE_READER_ONLY', [], 'nfs')],
    });
    const ask = (mode: Parameters<typeof mountCapability>[0]) =>
      home.client.controller.ValidateVolumeCapabilities({
        volume_id: volume?.volume_id ?? '',
        volume_capabilities: [mountCapability(mode, [], 'nfs')],
        volume_context: volume?.volume_context ?? {},
      });
    assert.notEqual((await ask('MULTI_NODE_READER_ONLY')).confirmed, null);
    assert.match((await ask('MULTI_NODE_MULTI_WRITER')).message, /made for MULTI_NODE_READER_ONLY/);
  });

  test('VC06: a context that is not the volume’s is not confirmed', async () => {
    const { volume } = await home.create('context');
    const ask = (volume_context: Record<string, string>) =>
      home.client.controller.ValidateVolumeCapabilities({
        volume_id: volume?.volume_id ?? '',
        volume_capabilities: [shared],
        volume_context,
      });
    assert.match((await ask({ ...volume?.volume_context, share: '/b' })).message, /another "share"/);
    assert.match((await ask({ nqn: 'x' })).message, /no "nqn"/);
  });

  test('a filesystem that the pool does not serve is refused', async () => {
    const volume_capabilities = [mountCapability('MULTI_NODE_MULTI_WRITER', [], 'nfs4')];
    await refused(home.create('other', { volume_capabilities }), 'INVALID_ARGUMENT', /has no nfs4/);
  });

  test('GC03: its capacity is the same everywhere', async () => {
    const { available_capacity } = await home.client.controller.GetCapacity({
      accessible_topology: { segments: { 'topology.kubernetes.io/zone': 'b' } },
      volume_capabilities: [shared],
    });
    assert.ok(available_capacity > 0n);
  });

  test('CE09: it grows without the node', async () => {
    const { volume } = await home.create('grows');
    const { capacity_bytes, node_expansion_required } = await home.client.controller.ControllerExpandVolume({
      volume_id: volume?.volume_id ?? '',
      capacity_range: { required_bytes: 8n * mebibyte },
    });
    assert.deepEqual([capacity_bytes, node_expansion_required], [8n * mebibyte, false]);
  });

  test('I05: the plugin has no constraints of accessibility', async () => {
    const { capabilities } = await home.client.identity.GetPluginCapabilities({});
    const services = capabilities.map(({ service }) => service?.type);
    assert.ok(services.includes('CONTROLLER_SERVICE') && !services.includes('VOLUME_ACCESSIBILITY_CONSTRAINTS'));
  });
});

describe('CP09: a volume that is published to several nodes', () => {
  const scratch = new Scratch('home');
  let home: Home;
  before(async () => {
    home = await Home.start(scratch, 'files', 'required');
  });
  after(async () => {
    await home[Symbol.asyncDispose]();
    scratch[Symbol.dispose]();
  });

  type Mode = Parameters<typeof mountCapability>[0];
  const make = async (name: string, mode: Mode) =>
    (await home.create(name, { volume_capabilities: [mountCapability(mode, [], 'nfs')] })).volume?.volume_id ?? '';
  const publish = (volume_id: string, node_id: string, mode: Mode, readonly = false) =>
    home.client.controller.ControllerPublishVolume({
      ...{ volume_id, node_id, readonly },
      volume_capability: mountCapability(mode, [], 'nfs'),
    });
  const unpublish = (volume_id: string, node_id: string) =>
    home.client.controller.ControllerUnpublishVolume({ volume_id, node_id });
  const nodesOf = async (volume_id: string) =>
    (await home.client.controller.ControllerGetVolume({ volume_id })).status?.published_node_ids ?? [];
  const isRefused = (code: string) => (error: unknown) => error instanceof CallError && error.code === code;

  test('is on each until it is unpublished there, also for a home that takes over', async () => {
    const id = await make('many', 'MULTI_NODE_MULTI_WRITER');
    for (const node of ['a', 'b', 'b', 'c']) await publish(id, node, 'MULTI_NODE_MULTI_WRITER');
    await assert.rejects(publish(id, 'b', 'MULTI_NODE_MULTI_WRITER', true), isRefused('ALREADY_EXISTS'));
    await home[Symbol.asyncDispose]();
    home = await Home.start(scratch, 'files', 'required');
    assert.deepEqual((await nodesOf(id)).sort(), ['a', 'b', 'c']);
    await unpublish(id, 'b');
    await unpublish(id, 'never');
    assert.deepEqual((await nodesOf(id)).sort(), ['a', 'c']);
    await assert.rejects(home.client.controller.DeleteVolume({ volume_id: id }), isRefused('FAILED_PRECONDITION'));
    await unpublish(id, '');
    assert.deepEqual(await nodesOf(id), []);
    await home.client.controller.DeleteVolume({ volume_id: id });
  });

  test('is so in a mode for several nodes only', async () => {
    const id = await make('one', 'MULTI_NODE_MULTI_WRITER');
    await publish(id, 'a', 'SINGLE_NODE_WRITER');
    await assert.rejects(publish(id, 'b', 'SINGLE_NODE_WRITER'), isRefused('FAILED_PRECONDITION'));
    await assert.rejects(publish(id, 'b', 'MULTI_NODE_MULTI_WRITER'), isRefused('FAILED_PRECONDITION'));
  });

  test('A01: has one writer where one is allowed', async () => {
    const id = await make('writer', 'MULTI_NODE_SINGLE_WRITER');
    await publish(id, 'a', 'MULTI_NODE_SINGLE_WRITER');
    await assert.rejects(publish(id, 'b', 'MULTI_NODE_SINGLE_WRITER'), isRefused('FAILED_PRECONDITION'));
    await publish(id, 'b', 'MULTI_NODE_SINGLE_WRITER', true);
    await publish(id, 'c', 'MULTI_NODE_READER_ONLY');
    assert.equal((await nodesOf(id)).length, 3);
  });

  test('CP04: one that a person named is published wherever it is wanted, if its context names a volume', async () => {
    const ask = (volume_id: string, volume_context: Record<string, string>) =>
      home.client.controller.ControllerPublishVolume({
        ...{ volume_id, node_id: 'a', readonly: false, volume_context },
        volume_capability: mountCapability('MULTI_NODE_MULTI_WRITER', [], 'nfs'),
      });
    await ask('nas#media', { source: '/dev/sdx' });
    await unpublish('nas#media', 'a');
    await assert.rejects(ask('nas#media', { source: '/dev/sdx', sauce: 'b' }), isRefused('INVALID_ARGUMENT'));
    await assert.rejects(ask('nas#media', {}), isRefused('NOT_FOUND'));
    await assert.rejects(ask(`vol-${'a'.repeat(26)}`, { source: '/dev/sdx' }), isRefused('NOT_FOUND'));
  });
});
