import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { parseRecord, type VolumeRecord } from '../../src/volume/record.ts';
import { eventually } from '../support/eventually.ts';
import type { CrashNode } from './crash-node.ts';
import { isShown, type Loop, lockHolders, loopsOver, mountsBelow } from './kernel-sight.ts';

/*
 * What must hold on a node whenever a driver runs and no call is at work, whatever became of the drivers before it.
 */

/** Asserts that records, data, devices and mounts agree with each other and with what the driver lists. */
export async function checkConsistent(node: CrashNode): Promise<void> {
  const { poolRoot } = node;
  const listed = await listIds(node);
  const snapshots = await listSnapshotIds(node);
  await eventually(() => {
    const unlinked = namesIn(poolRoot, 'trash').filter((name) => !isKept(join(poolRoot, 'trash', name)));
    assert.deepEqual(unlinked, [], 'trash/ has something in it that nobody keeps');
    // The draft of a copy waits for the call that goes on with it, or takes it back.
    const drafts = namesIn(poolRoot, 'tmp').filter((name) => !name.endsWith('.copy'));
    assert.deepEqual(drafts, [], 'tmp/ has something half made in it');
    const lasting = namesIn(poolRoot, 'volumes').filter((id) => readRecord(node, id).ephemeral === undefined);
    assert.deepEqual(lasting, listed, 'volumes/ and ListVolumes differ');
    assert.deepEqual(namesIn(poolRoot, 'snapshots'), snapshots, 'snapshots/ and ListSnapshots differ');
    checkDevices(node);
  });
  for (const id of namesIn(poolRoot, 'volumes')) checkVolume(node, id);
}

/** Asserts that there is no volume, no snapshot, and nothing of any. */
export async function checkEmpty(node: CrashNode, capacityBytes: bigint): Promise<void> {
  assert.deepEqual(await listIds(node), []);
  await checkConsistent(node);
  await eventually(() => {
    assert.deepEqual(volumeLoops(node), [], 'loop devices were left');
    assert.deepEqual(mountsBelow(node.kubeletDirectory), [], 'mounts were left');
  });
  assert.deepEqual(namesIn(node.dataDirectory, 'node'), [], 'notes were left');
  assert.deepEqual(leftInKubeletDirectory(node), [], "the kubelet's directory has something of ours in it");
  await eventually(() => assert.deepEqual(leftInPool(node), [], 'the pool has something in it'));
  await checkCapacity(node, capacityBytes);
}

/** Asserts that a driver that was stopped in order has let go of everything, and left no half-made file. */
export async function checkStopped(node: CrashNode): Promise<void> {
  const { dataDirectory, poolHome, poolRoot, scratch } = node;
  assert.ok(!existsSync(node.socketPath), 'the socket was left');
  assert.ok(!existsSync(join(dataDirectory, 'admin.sock')), 'the socket for the operator was left');
  assert.deepEqual(mountsBelow(dataDirectory), [], 'the pool was left mounted');
  // A device may have to wait for somebody who looks at it.
  await eventually(() => {
    const loops = loopsOver(scratch.path).filter(
      ({ backingFile }) => backingFile === poolHome || backingFile.startsWith(`${poolRoot}/`),
    );
    assert.deepEqual(loops, [], 'loop devices were left');
  });
  assert.deepEqual(lockHolders(statSync(poolHome, { bigint: true }).ino), [], 'somebody holds the lock of the pool');
  const halfMade = (readdirSync(dataDirectory, { recursive: true }) as string[]).filter((name) =>
    /\.(new|draft|formatting)$|\.reflink-/.test(name),
  );
  assert.deepEqual(halfMade, [], 'half-made files were left');
}

/** What can be promised, and what XFS gives or takes while it tidies up behind a removal. */
const toleranceBytes = 2n << 20n;

async function checkCapacity(node: CrashNode, expectedBytes: bigint): Promise<void> {
  await eventually(async () => {
    const missingBytes = expectedBytes - (await capacityOf(node));
    assert.ok(missingBytes < toleranceBytes && missingBytes > -toleranceBytes, `${missingBytes} bytes are missing`);
  });
}

export async function capacityOf(node: CrashNode): Promise<bigint> {
  return (await node.client.controller.GetCapacity({})).available_capacity;
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
function checkVolume(node: CrashNode, id: string): void {
  const record = readRecord(node, id);
  assert.equal(record.id, id);
  const { size } = statSync(dataOf(node, id), { bigint: true });
  assert.ok(size >= record.sizeBytes, `${id}: ${size} bytes of data for a volume of ${record.sizeBytes}`);
  const isUsed = volumeLoops(node).some(({ backingFile }) => backingFile === dataOf(node, id));
  assert.ok(record.ephemeral === undefined || isUsed, `${id} is ephemeral, and nobody uses it`);
}

function readRecord({ poolRoot }: CrashNode, id: string): VolumeRecord {
  const path = join(poolRoot, 'volumes', id, 'volume.json');
  return parseRecord(readFileSync(path, 'utf8'), path);
}

function dataOf({ poolRoot }: CrashNode, id: string): string {
  return join(poolRoot, 'volumes', id, 'data');
}

/** Every device is of a volume that exists, and is shown somewhere; two devices of one volume never both take writes. */
function checkDevices(node: CrashNode): void {
  const images = namesIn(node.poolRoot, 'volumes').map((id) => dataOf(node, id));
  const mounts = mountsBelow(node.kubeletDirectory);
  const loops = volumeLoops(node);
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
      loops.some((loop) => isShown(loop, [mount])),
      `${mount.target} shows the device of no volume`,
    );
  }
}

function volumeLoops(node: CrashNode): Loop[] {
  return loopsOver(node.poolRoot);
}

/** All that lies in the pool besides its own directories. */
function leftInPool({ poolRoot }: CrashNode): string[] {
  const own = ['groups', 'health', 'pool.json', 'snapshots', 'tmp', 'trash', 'volumes'];
  return (readdirSync(poolRoot, { recursive: true }) as string[]).filter((name) => !own.includes(name));
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
