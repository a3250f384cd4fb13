import type { Moving, MovingSnapshots } from '../../../admin/protocol.ts';
import { formatBytes } from '../../../volume/size.ts';
import { age, printable } from '../text.ts';

export const moveColumns = [
  { title: 'ID' },
  { title: 'FROM', extra: 2 },
  { title: 'TO' },
  { title: 'STATE' },
  { title: 'ROUND', align: 'right', extra: 1 },
  { title: 'COPIED', align: 'right' },
  { title: 'STARTED', align: 'right', extra: 3 },
  { title: 'WHY', wraps: true },
] as const;

export function moveRow(move: Moving): string[] {
  const {
    copiedBytes,
    doneBytes,
    fromNode,
    id,
    leftBytes,
    phase,
    reason = '',
    round,
    snapshots,
    startedAt,
    state,
    toNode,
    totalBytes,
  } = move;
  const from = fromNode === undefined ? move.from : `${fromNode}/${move.from}`;
  const to = toNode ?? move.to;
  const copied = phase === 'copying' || phase === 'switching' ? `${partOf(doneBytes, totalBytes)}%` : '';
  return [
    ...[id, from, to, state === 'running' ? (phase ?? state) : state],
    round === undefined ? '' : String(round),
    copied === '' && copiedBytes !== undefined ? formatBytes(BigInt(copiedBytes)) : copied,
    `${age(startedAt, new Date())} ago`,
    [
      reason === '' && phase === 'waiting' ? 'until the volume is not in use' : printable(reason),
      copyText(move),
      move.arrived === undefined
        ? ''
        : `it has come to pool ${move.to} at ${move.arrived.at}, and may have been used there`,
      leftBytes === undefined
        ? ''
        : `${formatBytes(BigInt(leftBytes))} of it stay in pool ${move.to} until it is cancelled or ordered again`,
      ...(snapshots === undefined ? [] : snapshotTexts(snapshots)),
    ]
      .filter((text) => text !== '')
      .join('; '),
  ];
}

/** The copy that is whole, as long as the volume has not arrived, or if that was ended without its source. */
function copyText({ asOf, from, fromNode, usableSince }: Moving): string {
  if (asOf === undefined) return '';
  const source = fromNode === undefined ? `pool ${from}` : `node ${fromNode}`;
  const since = usableSince === undefined ? '' : `, and could be used there again by ${usableSince}`;
  return `all of it has come, as it was on ${source} at ${asOf}${since}`;
}

/** `snapshots: 2 of 5 moved, old: 40%`. */
function snapshotTexts(snapshots: MovingSnapshots): string[] {
  const { left, moved, reason = '', state } = snapshots;
  const isRunning = state === 'running';
  return [
    `snapshots${isRunning ? '' : ` ${state}`}: ${progressOf(snapshots)}${reason === '' ? '' : `: ${printable(reason)}`}`,
    ...left.map((each) => `${printable(each.name)} is in ${placeOf(each)}: ${printable(each.reason)}`),
  ].filter(() => moved > 0 || isRunning || left.length > 0 || reason !== '');
}

function placeOf({ node, pool }: MovingSnapshots['left'][number]): string {
  return printable(node === undefined ? pool : `${node}/${pool}`);
}

function progressOf({ current, doneBytes, moved, total, totalBytes }: MovingSnapshots): string {
  const all = total === undefined || total < moved ? '' : ` of ${total}`;
  const part = current === undefined ? '' : `, ${printable(current)}: ${partOf(doneBytes, totalBytes)}%`;
  return `${moved}${all} moved${part}`;
}

const barWidth = 24;

/** `round 2 [#####   ] 40%  1.2Gi of 3Gi, 210Mi/s, 9 s left`. */
export function progressLine(move: Moving): string {
  const { bytesPerSecond, doneBytes, phase, reason, round, snapshots, state, totalBytes } = move;
  // They may have been ordered alone.
  if (snapshots !== undefined && (state === 'done' || phase === undefined)) {
    return `snapshots: ${progressOf(snapshots)} ${printable(snapshots.reason ?? '')}`.slice(0, 100);
  }
  if (reason !== undefined) return printable(reason).slice(0, 100);
  // Its pool cannot tell changes: nothing is copied before.
  const copied = round === 0 ? '' : 'all but the last changes are copied: ';
  if (phase === 'waiting') return `${copied}waiting until the volume is not in use`;
  const [done, total, rate] = [doneBytes, totalBytes, bytesPerSecond].map((text) => BigInt(text ?? '0'));
  if (done === undefined || total === undefined || rate === undefined || total === 0n) return `round ${round ?? 0}`;
  const part = partOf(doneBytes, totalBytes);
  const bar = '#'.repeat(Math.floor((part * barWidth) / 100)).padEnd(barWidth);
  const left = rate > 0n ? `, ${(total - done) / rate} s left` : '';
  return `round ${round ?? 0} [${bar}] ${part}%  ${formatBytes(done)} of ${formatBytes(total)}, ${formatBytes(rate)}/s${left}`;
}

function partOf(done: string | undefined, total: string | undefined): number {
  const all = Number(total ?? '0');
  return all === 0 ? 100 : Math.min(100, Math.floor((Number(done ?? '0') * 100) / all));
}
