import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { parseRecord, type VolumeRecord } from '../../src/volume/record.ts';
import { eventually } from '../support/eventually.ts';
import type { CrashNode } from './crash-node.ts';
import type { CrashPool } from './crash-pool.ts';
import { holdersOf, isShown, type Loop, lockHolders, loopsOver, type MountLine, mountsBelow } from './kernel-sight.ts';

/*
 * What must hold on a node whenever a driver runs and no call is at work, whatever became of the drivers before it.
 */

/** Asserts that records, data, devices and mounts agree with each other and with what the driver lists. */
export async function checkConsistent(node: CrashNode): Promise<void> {
  const listed = await listIds(node);
  const snapshots = await listSnapshotIds(node);
  await eventually(() => {
    for (const pool of node.pools) checkTidy(pool);
    const persistent = inAllPools(node, (pool) => volumesIn(pool).filter((id) => !isEphemeral(pool, id)));
    assert.deepEqual(persistent, listed, 'volumes/ and ListVolumes differ');
    const cut = inAllPools(node, ({ root }) => namesIn(root, 'snapshots'));
    assert.deepEqual(cut, snapshots, 'snapshots/ and ListSnapshots differ');
    checkDevices(node);
  });
  for (const pool of node.pools) for (const id of volumesIn(pool)) checkVolume(pool, id);
}

/** Asserts that nothing is half made, half removed or waiting to be. */
function checkTidy({ name, root }: CrashPool): void {
  const unlinked = namesIn(root, 'trash').filter((entry) => !isKept(join(root, 'trash', entry)));
  assert.deepEqual(unlinked, [], `${name}: trash/ has something in it that nobody keeps`);
  // The draft of a copy waits for the call that goes on with it, or takes it back.
  const drafts = namesIn(root, 'tmp').filter((entry) => !entry.endsWith('.copy'));
  assert.deepEqual(drafts, [], `${name}: tmp/ has something half made in it`);
}

/** Asserts that there is no volume, no snapshot, and nothing of any. */
export async function checkEmpty(node: CrashNode, capacities: Capacities): Promise<void> {
  assert.deepEqual(await listIds(node), []);
  await checkConsistent(node);
  await eventually(() => {
    assert.deepEqual(node.pools.flatMap(volumeLoops), [], 'loop devices were left');
    assert.deepEqual(volumeMounts(node), [], 'mounts were left');
  });
  assert.deepEqual(namesIn(node.dataDirectory, 'node'), [], 'notes were left');
  assert.deepEqual(leftInKubeletDirectory(node), [], "the kubelet's directory has something of ours in it");
  await eventually(() => assert.deepEqual(node.pools.flatMap(leftInPool), [], 'a pool has something in it'));
  await checkCapacities(node, capacities);
}

/** Asserts that a driver that was stopped in order has let go of everything, and left no half-made file. */
export async function checkStopped(node: CrashNode): Promise<void> {
  const { dataDirectory, pools, scratch } = node;
  assert.ok(!existsSync(node.socketPath), 'the socket was left');
  assert.ok(!existsSync(join(dataDirectory, 'admin.sock')), 'the socket for the operator was left');
  assert.deepEqual(mountsBelow(dataDirectory), [], 'a pool was left mounted');
  // A device may have to wait for somebody who looks at it.
  await eventually(() => {
    const loops = loopsOver(scratch.path).filter(({ backingFile }) =>
      pools.some(({ location, root }) => backingFile === location || backingFile.startsWith(`${root}/`)),
    );
    assert.deepEqual(
      loops.map((loop) => ({ ...loop, holders: holdersOf(loop) })),
      [],
      'loop devices were left',
    );
  });
  for (const { location, name } of pools) {
    assert.deepEqual(lockHolders(location), [], `somebody holds the lock of pool ${name}`);
  }
  const halfMade = (readdirSync(dataDirectory, { recursive: true }) as string[]).filter((name) =>
    /\.(new|draft|formatting)$|\.reflink-/.test(name),
  );
  assert.deepEqual(halfMade, [], 'half-made files were left');
}

/** What can be promised, and what XFS gives or takes while it tidies up behind a removal. */
const toleranceBytes = 2n << 20n;

async function checkCapacities(node: CrashNode, expected: Capacities): Promise<void> {
  await eventually(async () => {
    for (const [name, bytes] of await capacitiesOf(node)) {
      const missing = (expected.get(name) ?? 0n) - bytes;
      assert.ok(missing < toleranceBytes && missing > -toleranceBytes, `pool ${name}: ${missing} bytes are missing`);
    }
  });
}

/** What each pool can promise, by its name. */
export type Capacities = ReadonlyMap<string, bigint>;

export async function capacitiesOf({ client, pools }: CrashNode): Promise<Capacities> {
  const capacities = new Map<string, bigint>();
  for (const { name, root } of pools) {
    const { available_capacity } = await client.controller.GetCapacity({ parameters: { pool: name } });
    // What templates take goes when it is needed.
    capacities.set(name, available_capacity + templateBytes(root));
  }
  return capacities;
}

function templateBytes(root: string): bigint {
  const blocks = namesIn(root, 'templates').map(
    (name) => statSync(join(root, 'templates', name), { bigint: true }).blocks,
  );
  return blocks.reduce((sum, each) => sum + each * 512n, 0n);
}

/** In order. Fails if a volume is listed twice. */
export async function listIds(node: CrashNode): Promise<string[]> {
  const { entries } = await node.client.controller.ListVolumes({});
  const ids = entries.map(({ volume }) => volume?.volume_id ?? '').sort();
  assert.deepEqual(ids, [...new Set(ids)], 'a volume is listed twice');
  return ids;
}

async function listSnapshotIds(node: CrashNode): Promise<string[]> {
  const { entries } = await node.client.controller.ListSnapshots({});
  return entries.map(({ snapshot }) => snapshot?.snapshot_id ?? '').sort();
}

/** A deleted volume that can still be brought back. */
function isKept(path: string): boolean {
  return existsSync(join(path, 'deleted.json'));
}

/** Record and data agree. The data may be larger: it grows before the record says so. */
function checkVolume(pool: CrashPool, id: string): void {
  const record = readRecord(pool, id);
  assert.equal(record.id, id);
  const data = statSync(dataOf(pool, id), { bigint: true });
  assert.equal(data.isDirectory(), record.content.type === 'directory');
  if (data.isDirectory()) return;
  const { size } = data;
  assert.ok(size >= record.sizeBytes, `${id}: ${size} bytes of data for a volume of ${record.sizeBytes}`);
  const isUsed = volumeLoops(pool).some(({ backingFile }) => backingFile === dataOf(pool, id));
  assert.ok(record.ephemeral === undefined || isUsed, `${id} is ephemeral, and nobody uses it`);
}

function isEphemeral(pool: CrashPool, id: string): boolean {
  return readRecord(pool, id).ephemeral !== undefined;
}

function readRecord({ root }: CrashPool, id: string): VolumeRecord {
  const path = join(root, 'volumes', id, 'volume.json');
  return parseRecord(readFileSync(path, 'utf8'), path);
}

function dataOf({ root }: CrashPool, id: string): string {
  return join(root, 'volumes', id, 'data');
}

/** Every device is of a volume that exists, and is shown somewhere; two devices of one volume never both take writes. */
function checkDevices(node: CrashNode): void {
  const images = node.pools.flatMap((pool) => volumesIn(pool).map((id) => dataOf(pool, id)));
  const mounts = volumeMounts(node);
  const loops = node.pools.flatMap(volumeLoops);
  const writable = new Set<string>();
  for (const loop of loops) {
    const about = `/dev/loop${loop.number} over ${loop.backingFile}`;
    assert.ok(images.includes(loop.backingFile), `${about} is of no volume`);
    assert.ok(isShown(loop, mounts), `${about} can be seen nowhere`);
    assert.ok(loop.readonly || !writable.has(loop.backingFile), `${about} is a second device that takes writes`);
    if (!loop.readonly) writable.add(loop.backingFile);
  }
  for (const mount of mounts) {
    assert.ok(
      loops.some((loop) => isShown(loop, [mount])) || isOfDirectory(node, mount),
      `${mount.target} shows the device of no volume`,
    );
  }
}

/** Whether the mount shows a volume that is a directory: its path from the root of its filesystem is the end of its own. */
function isOfDirectory({ pools }: CrashNode, { root }: MountLine): boolean {
  return pools.some((pool) => volumesIn(pool).some((id) => dataOf(pool, id).endsWith(root) && root.includes(id)));
}

/** All in the kubelet's directory, which is one itself. */
export function volumeMounts({ kubeletDirectory }: CrashNode): MountLine[] {
  return mountsBelow(kubeletDirectory).filter(({ target }) => target !== kubeletDirectory);
}

function volumeLoops({ root }: CrashPool): Loop[] {
  return loopsOver(root);
}

function volumesIn({ root }: CrashPool): string[] {
  return namesIn(root, 'volumes');
}

/** In order. */
function inAllPools({ pools }: CrashNode, names: (pool: CrashPool) => string[]): string[] {
  return pools.flatMap(names).sort();
}

/** All that lies in the pool besides its own directories. */
function leftInPool({ root }: CrashPool): string[] {
  const own = ['age', 'ballast', 'groups', 'health', 'pool.json', 'snapshots', 'spares', 'tmp', 'trash', 'volumes'];
  const names = readdirSync(root, { recursive: true }) as string[];
  return names.filter((name) => !own.includes(name) && !/^(spares\/\d+|templates(\/.*)?|handovers)$/.test(name));
}

/** Staging directories and the parents of targets are the caller's; everything in them is ours. */
function leftInKubeletDirectory({ kubeletDirectory }: CrashNode): string[] {
  const callers = /^(plugins|pods)(\/[^/]+(\/globalmount)?)?$/;
  return (readdirSync(kubeletDirectory, { recursive: true }) as string[]).filter(
    (name) => !callers.test(name) || /^pods\/[^/]+\//.test(name),
  );
}

function namesIn(directory: string, name: string): string[] {
  const path = join(directory, name);
  return existsSync(path) ? readdirSync(path).sort() : [];
}
