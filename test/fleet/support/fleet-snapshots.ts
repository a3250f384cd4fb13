import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { closeSync, fsyncSync, openSync, readdirSync, readFileSync, writeSync } from 'node:fs';
import { eventually } from '../../support/eventually.ts';
import { TestVolume } from '../../support/life.ts';
import { volumeOn } from './fleet.ts';
import { type MovingFleet, movesOf, raw } from './moving-fleet.ts';
import type { Viewer } from './viewer.ts';

export function controllerOf({ controller }: MovingFleet) {
  return controller ?? assert.fail('no controller');
}

export function requireUnavailable(error: unknown): undefined {
  assert.match(String(error), /UNAVAILABLE|ABORTED/);
  return undefined;
}

/** Waits until all that could follow it has. */
export async function followed(fleet: MovingFleet, viewer: Viewer, id: string): Promise<void> {
  await eventually(async () => {
    const moves = await movesOf(fleet, viewer, id);
    // Each node tells its own moves.
    const last = moves.toSorted((a, b) => (a.startedAt < b.startedAt ? -1 : 1)).at(-1);
    assert.equal(last?.state, 'done', JSON.stringify(moves));
    assert.equal(last.snapshots?.state, 'done', JSON.stringify(moves));
  }, 120_000);
}

export function snapshotsIn(fleet: MovingFleet, name: string): string[] {
  return readdirSync(fleet.node(name).scratch.join('data', 'pools', 'default', 'snapshots')).sort();
}

/** Writes to the volume before each of them. @returns their digests by their ids, in the order of their ids */
export async function withSnapshots(
  fleet: MovingFleet,
  node: string,
  id: string,
  names: readonly string[],
): Promise<Map<string, string>> {
  const { driver, scratch } = fleet.node(node);
  const volume = new TestVolume(scratch, 'data', raw);
  using client = driver.connect();
  using controller = controllerOf(fleet).connect();
  const digests = new Map<string, string>();
  await volume.stage(client, id);
  for (const [at, name] of names.entries()) {
    await volume.publish(client, id);
    const file = openSync(volume.targetPath, 'r+');
    writeSync(file, randomBytes(2 << 20), 0, 2 << 20, at << 20);
    fsyncSync(file);
    closeSync(file);
    const digest = digestOf(volume.targetPath);
    await volume.unpublish(client, id);
    const { snapshot } = await controller.controller.CreateSnapshot({ source_volume_id: id, name });
    digests.set(snapshot?.snapshot_id ?? assert.fail(), digest);
  }
  await volume.unstage(client, id);
  return new Map([...digests].sort());
}

/** Each is listed once, and makes a volume with its bytes on that node. */
export async function requireWhole(
  fleet: MovingFleet,
  node: string,
  digests: ReadonlyMap<string, string>,
): Promise<void> {
  const { driver, scratch } = fleet.node(node);
  using client = driver.connect();
  using controller = controllerOf(fleet).connect();
  await eventually(async () => {
    const { entries } = await controller.controller.ListSnapshots({});
    assert.deepEqual(entries.map(({ snapshot }) => snapshot?.snapshot_id).sort(), [...digests.keys()]);
  });
  for (const [snapshot_id, digest] of digests) {
    const copy = new TestVolume(scratch, `copy-${randomBytes(4).toString('hex')}`, raw);
    let id = '';
    await eventually(async () => {
      const { volume } = await controller.controller.CreateVolume({
        ...{ ...volumeOn(node, copy.name), volume_capabilities: [raw] },
        volume_content_source: { snapshot: { snapshot_id } },
      });
      id = volume?.volume_id ?? '';
    });
    await copy.stage(client, id);
    await copy.publish(client, id);
    assert.equal(digestOf(copy.targetPath), digest);
    await copy.tearDown(client, id);
  }
}

function digestOf(path: string): string {
  return createHash('sha256').update(readFileSync(path)).digest('hex');
}
