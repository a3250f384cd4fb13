import { AdminClient, AdminError } from '../admin/client.ts';
import { lostEndIn } from '../admin/lost-node.ts';
import type { Moving, MovingSnapshots, PlannedMove } from '../admin/protocol.ts';
import type { Config } from '../config/config.ts';
import { InvalidArgument, NotFound } from '../volume/errors.ts';
import { pause } from '../volume/flow/pause.ts';
import { parseVolumeId } from '../volume/id.ts';
import { formatBytes, parseQuantity } from '../volume/size.ts';
import { claimText, type Known } from './look/find-volume.ts';
import { volumeIdOf } from './look/volume-id.ts';
import { exitCodes, type Output, toJson } from './output/output.ts';
import { printTable } from './output/table.ts';
import { moveColumns, moveRow, progressLine } from './output/tables/moves.ts';
import { printable } from './output/text.ts';

export interface MoveOptions {
  readonly wanted: string;
  readonly to: string;
  /** In the form that was typed: 100Mi. */
  readonly limit: string | undefined;
  readonly dryRun: boolean;
  readonly wait: boolean;
  readonly withSnapshots: boolean;
  readonly json: boolean;
}

const pollMs = 500;

/** `holdfast move VOLUME --to-pool POOL`: the driver moves it, and this shows how far it has come. */
export async function moveCommand(config: Config, output: Output, options: MoveOptions): Promise<number> {
  const { dryRun, json, to, wait, wanted, withSnapshots } = options;
  if (to === '') {
    output.problem('INVALID_ARGUMENT', 'say which pool it moves to: --to-pool POOL (holdfast pools shows them)');
    return exitCodes.usage;
  }
  const limit = options.limit === undefined ? undefined : limitOf(options.limit);
  if (typeof limit === 'string') {
    output.problem('INVALID_ARGUMENT', limit);
    return exitCodes.usage;
  }
  const client = new AdminClient(config.adminSocketPath);
  const id = await volumeIdOf(config, wanted);
  if (dryRun) {
    const plan = await client.planMove(id, to, withSnapshots);
    if (json) output.line(toJson<'move --dry-run'>(plan));
    else for (const line of planLines(plan)) output.line(line);
    return exitCodes.ok;
  }
  const { move, plan } = await client.startMove(id, to, limit, withSnapshots);
  const isWatched = wait || (!json && process.stderr.isTTY === true);
  if (!json) {
    for (const line of planLines(plan)) output.line(line);
    output.line(`It is moving. Watch it: holdfast move status ${id}. Give it up: holdfast move cancel ${id}.`);
  }
  const last = isWatched ? await watch(client, move) : move;
  if (last === undefined) {
    output.problem('WARNING', `the move goes on in the driver. Watch it: holdfast move status ${id}`);
    return exitCodes.failed;
  }
  if (json) output.line(toJson<'move'>({ plan, move: last }));
  if (last.state === 'failed' || last.state === 'cancelled') {
    // Where it is after a failure, the reason says: the disk with it may be away.
    const why = last.reason ?? `it was cancelled, and the volume stays in pool ${last.from}`;
    output.problem('ABORTED', `volume ${id} has not moved to pool ${last.to}: ${why}`);
    return exitCodes.failed;
  }
  if (!json && last.state === 'done') output.line(`${id} is in pool ${last.to}.`);
  return last.snapshots === undefined ? exitCodes.ok : reportSnapshots(output, last.snapshots, json);
}

/** `holdfast move status [VOLUME]`. */
export async function moveStatusCommand(
  config: Config,
  output: Output,
  { json, wanted }: { json: boolean; wanted: string | undefined },
): Promise<number> {
  const { moves } = await new AdminClient(config.adminSocketPath).listMoves();
  const id = wanted === undefined ? wanted : await volumeIdOf(config, wanted, arriving(moves));
  const shown = id === undefined ? moves : moves.filter((move) => move.id === id);
  if (id !== undefined && shown.length === 0) throw new NotFound(`volume ${printable(id)} has not moved of late.`);
  if (json) output.line(toJson<'move status'>({ moves: shown }));
  else printTable(output, moveColumns, { rows: shown.map(moveRow), none: 'No volume is moving.' });
  return exitCodes.ok;
}

/** The volumes that are in no pool yet: their moves know what they are. */
function arriving(moves: readonly Moving[]): Known[] {
  return moves.flatMap(({ claim, id, name, to: pool }) => (name === undefined ? [] : [{ id, name, claim, pool }]));
}

async function movingVolume(config: Config, client: AdminClient, wanted: string): Promise<string> {
  if (parseVolumeId(wanted) !== undefined) return wanted;
  return volumeIdOf(config, wanted, arriving((await client.listMoves()).moves));
}

/** `holdfast move cancel VOLUME`. */
export async function cancelMoveCommand(
  config: Config,
  output: Output,
  {
    evenSo,
    json,
    lostNode,
    wanted,
  }: {
    readonly evenSo?: boolean | undefined;
    readonly json: boolean;
    readonly lostNode?: string | undefined;
    readonly wanted: string;
  },
): Promise<number> {
  const client = new AdminClient(config.adminSocketPath);
  const id = await movingVolume(config, client, wanted);
  printCancelled(output, await client.cancelMove(id, lostNode, evenSo), json);
  return exitCodes.ok;
}

export function printCancelled(output: Output, move: Moving, json: boolean): void {
  if (json) output.line(toJson<'move cancel'>(move));
  else if (move.snapshots !== undefined) {
    output.line(`The snapshots of ${move.id} follow it no more: those that have not moved are where they were.`);
    reportSnapshots(output, move.snapshots, json);
  } else output.line(cancelledLine(move));
}

function cancelledLine({ from, fromNode, id, isSetAside, isUnseen, state, to, toNode }: Moving): string {
  if (isSetAside === true) return `${id} is on node ${toNode} alone: the other copy is in the trash of its node.`;
  // The order came behind its end: what it has left may be lost.
  if (state === 'done') {
    const place = toNode === undefined ? `in pool ${to}` : `on node ${toNode}`;
    return `${id} is ${place}: it has arrived there, and its move has ended.`;
  }
  if (from === '') {
    return `The copy of ${id} that had come to pool ${to} is removed. If another node has handed it over: kubectl holdfast move cancel ${id}, with that node as --node, makes it usable there again.`;
  }
  if (isUnseen === true && fromNode !== undefined) {
    return `The copy of ${id} that had come to pool ${to} is removed. Node ${fromNode}, which it came from, has not shown that it has the volume: kubectl holdfast volumes shows where it is.`;
  }
  if (isUnseen === true && toNode !== undefined) {
    return `The move of ${id} to node ${toNode} is cancelled. Pool ${from}, which it leaves, was not looked at: if that comes back, and the volume had not been handed over, it can be used there.`;
  }
  if (fromNode !== undefined) return `${id} stays on node ${fromNode}, in pool ${from}: its move is cancelled.`;
  if (toNode !== undefined) return `${id} stays in pool ${from}: the move to node ${toNode} is cancelled.`;
  return from === to
    ? `${id} can be used again, in pool ${from}.`
    : `${id} stays in pool ${from}: the move to ${to} is cancelled.`;
}

/**
 * After the copy that another node had, or was getting, is given up: its PersistentVolume may have the pod wait for that node.
 * @param cancelled the move that is given up
 */
export function printResume(
  output: Output,
  { json, lostNode }: { readonly json: boolean; readonly lostNode: string | undefined },
  cancelled?: Moving,
): void {
  const isBetween = cancelled?.fromNode !== undefined || cancelled?.toNode !== undefined;
  // Its PersistentVolume says it already.
  if (json || cancelled?.isSetAside === true || (lostNode === undefined && !isBetween)) return;
  const other = lostNode === undefined ? 'another node' : `node ${lostNode}`;
  output.line(
    `If its PersistentVolume names ${other}: kubectl holdfast move --resume CLAIM makes it name the node of the volume.`,
  );
}

/** `holdfast move finish VOLUME`: the copy becomes the volume, as its source is lost. */
export async function finishMoveCommand(
  config: Config,
  output: Output,
  { evenSo, json, wanted, ...named }: FinishOptions,
): Promise<number> {
  const lost = lostEndIn(named);
  if (lost === undefined) {
    output.problem('INVALID_ARGUMENT', 'say which is lost: --pool-is-lost POOL, or --node-is-lost NODE');
    return exitCodes.usage;
  }
  const client = new AdminClient(config.adminSocketPath);
  printFinished(output, await client.finishMove(await movingVolume(config, client, wanted), lost, evenSo), json);
  return exitCodes.ok;
}

export interface FinishOptions {
  /** Also a copy since which the volume could be used, and changed. */
  readonly evenSo: boolean;
  readonly json: boolean;
  readonly lostNode: string | undefined;
  readonly lostPool: string | undefined;
  readonly wanted: string;
}

export function printFinished(output: Output, move: Moving, json: boolean): void {
  if (json) output.line(toJson<'move finish'>(move));
  else if (move.snapshots !== undefined) output.line(finishedSnapshotLine(move));
  else output.line(finishedLine(move));
}

function finishedSnapshotLine({ fromNode, id, snapshots }: Moving): string {
  const finished = `A snapshot of ${id} of which all had come can be used: holdfast snapshots shows where it is.`;
  if (snapshots?.state !== 'running' || fromNode === undefined) return finished;
  return `${finished} If node ${fromNode} never comes back, the others are lost with it: move cancel, with --node-is-lost ${fromNode}, ends their move.`;
}

function finishedLine({ asOf, from, fromNode, id, to, usableSince }: Moving): string {
  const then =
    asOf === undefined ? 'as it was when it was copied last, at a time that is not known,' : `as it was at ${asOf}`;
  const since =
    usableSince === undefined ? '' : ` It could be used again there by ${usableSince}: later writes are lost.`;
  return `${id} is in pool ${to}, ${then} ${fromNode === undefined ? `in pool ${from}` : `on node ${fromNode}`}.${since}`;
}

/** Shows how far a move has come, until it has ended. @returns undefined if the user does not wait for that */
async function watch(client: AdminClient, started: Moving): Promise<Moving | undefined> {
  const interrupted = new AbortController();
  const interrupt = () => interrupted.abort();
  process.once('SIGINT', interrupt);
  const { isTTY } = process.stderr;
  const show = (text: string) => {
    if (isTTY === true) process.stderr.write(`\r${text}\x1b[K`);
  };
  try {
    for (let move = started; ; ) {
      if (!isMoving(move)) return move;
      show(progressLine(move));
      await pause(pollMs, interrupted.signal);
      if (interrupted.signal.aborted) return undefined;
      move = (await nowOf(client, started)) ?? move;
    }
  } finally {
    process.off('SIGINT', interrupt);
    if (isTTY === true) process.stderr.write('\r\x1b[K');
  }
}

function isMoving({ snapshots, state }: Moving): boolean {
  return state === 'running' || (state === 'done' && snapshots?.state === 'running');
}

/** @returns the exit code: a failure if one has not moved that should have */
function reportSnapshots(output: Output, { left, moved, reason, state, to }: MovingSnapshots, json: boolean): number {
  if (state === 'running') return exitCodes.ok;
  if (!json) output.line(`${moved} of its snapshots ${moved === 1 ? 'has' : 'have'} followed it to pool ${to}.`);
  for (const each of left) {
    const place = printable(placeOf(each.pool, each.node));
    output.problem('WARNING', `snapshot ${printable(each.name)} is in ${place}: ${printable(each.reason)}`);
  }
  if (state === 'failed') output.problem('ABORTED', printable(reason ?? 'the snapshots did not follow it'));
  const isAllMoved = state === 'done' && left.every(({ stays }) => stays);
  return isAllMoved || state === 'cancelled' ? exitCodes.ok : exitCodes.failed;
}

/** undefined: the driver is starting again, and resumes the move then. */
async function nowOf(client: AdminClient, { id, startedAt }: Moving): Promise<Moving | undefined> {
  try {
    const { moves } = await client.listMoves();
    return moves.find((move) => move.id === id && (move.startedAt === startedAt || move.snapshots !== undefined));
  } catch (error) {
    if (error instanceof AdminError && error.code === 'UNAVAILABLE') return undefined;
    throw error;
  }
}

/** @param toNode of a move to another node */
export function planLines(plan: PlannedMove, toNode?: string): string[] {
  const { claim, from, id, isCopiedInUse, isInUse, name, provisioning, sizeBytes, to, usedBytes } = plan;
  const [source, target] = [placeOf(from, plan.fromNode), placeOf(to, toNode)];
  const title = printable(claim === undefined ? name : claimText(claim));
  const use = isCopiedInUse
    ? `It is copied while it is in use; the last changes are copied when it is not${isInUse ? ': stop its pod then' : ''}.`
    : `It is copied while it is not in use, as ${source} cannot tell what changes meanwhile${isInUse ? ': stop its pod, and start it again once it has moved' : ''}.`;
  if (from === to && toNode === undefined) return [`${id} (${title}) is in ${target}.`, ...snapshotLines(plan, source)];
  return [
    `${id} (${title}): from ${source} to ${target}, ${formatBytes(BigInt(usedBytes))} of ${formatBytes(BigInt(sizeBytes))} (${provisioning}).`,
    use,
    ...growthLines(plan),
    ...snapshotLines(plan, source),
    `Its copy in ${source} stays in the trash for a week.`,
  ];
}

/** Pools that round sizes up by a little say nothing of it. */
function growthLines({ sizeBytes, sizeNowBytes = sizeBytes }: PlannedMove): string[] {
  const [now, then] = [formatBytes(BigInt(sizeNowBytes)), formatBytes(BigInt(sizeBytes))];
  if (now === then) return [];
  return [
    `It grows from ${now} to ${then}, as the pool gives no other size, and never gets smaller again. A filesystem grows when it is mounted next.`,
  ];
}

function snapshotLines({ following, snapshots }: PlannedMove, source: string): string[] {
  if (following === undefined) return snapshots === 0 ? [] : [`Its snapshots (${snapshots}) stay in ${source}.`];
  const { moving, neededBytes, staying } = following;
  const room = formatBytes(BigInt(neededBytes));
  return [
    ...(moving.length === 0
      ? ['No snapshot of it can follow it.']
      : [`Its snapshots (${moving.length}) follow it, one after the other: up to ${room} more.`]),
    ...staying.map(
      ({ name, node, pool, reason }) =>
        `Snapshot ${printable(name)} stays in ${printable(placeOf(pool, node))}: ${printable(reason)}`,
    ),
  ];
}

function placeOf(pool: string, node: string | undefined): string {
  return node === undefined ? `pool ${pool}` : `pool ${pool} of node ${node}`;
}

/** @returns bytes, or the reason why the text is no size */
function limitOf(text: string): bigint | string {
  try {
    const bytes = parseQuantity(text);
    return bytes > 0n ? bytes : `--limit ${text}: it must be more than nothing`;
  } catch (error) {
    if (error instanceof InvalidArgument) return error.message;
    throw error;
  }
}
