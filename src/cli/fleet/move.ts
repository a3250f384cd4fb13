import { askFleet } from '../../fleet/view/ask.ts';
import type { ChangeWishes } from '../../fleet/view/request.ts';
import type { ChangedFleet } from '../../fleet/view/start.ts';
import { Unavailable } from '../../volume/errors.ts';
import { parseVolumeId } from '../../volume/id.ts';
import { findVolume } from '../look/find-volume.ts';
import { planLines } from '../move.ts';
import { exitCodes, type Output } from '../output/output.ts';
import { itemShapes } from './shapes.ts';

/** Time that a node may take to list its volumes. */
const searchMs = 10_000;

/** `kubectl holdfast move VOLUME --to NODE`: the nodes do it, and it goes on without its caller. */
export async function moveVolume(
  fleet: ChangedFleet,
  wishes: ChangeWishes,
  output: Output,
  signal: AbortSignal,
): Promise<number> {
  const { dryRun, json, limitBytesPerSecond, node = '', progress, toPool, volume = '', withSnapshots } = wishes;
  const volumeId = await idOf(fleet, volume, signal);
  const order = { volumeId, toNode: node, toPool, limitBytesPerSecond, withSnapshots };
  if (dryRun) {
    const plan = await fleet.moves.plan(order);
    if (json) output.line(JSON.stringify({ node, plan }));
    else for (const line of planLines(plan, node)) output.line(line);
    return exitCodes.ok;
  }
  const { move, moveId, plan } = await fleet.moves.start(order);
  // A program asks by it how the move goes.
  if (progress) output.line(moveId);
  if (json) output.line(JSON.stringify({ node, plan, move }));
  else for (const line of planLines(plan, node)) output.line(line);
  return exitCodes.ok;
}

/** @throws NotFound, FailedPrecondition, Unavailable */
async function idOf(fleet: ChangedFleet, volume: string, signal: AbortSignal): Promise<string> {
  if (parseVolumeId(volume) !== undefined) return volume;
  const question = { list: 'volumes', volume, node: undefined, waitMs: searchMs, signal };
  const { items, missing } = await askFleet(fleet, question, itemShapes.volumes);
  const [first] = missing;
  if (items.length === 0 && first !== undefined) {
    throw new Unavailable(`no node that has answered has '${volume}': node ${first.node}: ${first.message}`);
  }
  const known = items.map(({ item, node }) => ({ ...item, pool: `${item.pool} of node ${node}` }));
  return findVolume(known, volume, 'on any node').id;
}
