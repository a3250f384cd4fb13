import type { Logger } from 'pino';
import type { LinkConfig } from '../../config/config.ts';
import type { Calls } from '../../csi/call.ts';
import { callEnded } from '../../csi/call-events.ts';
import type { Mover } from '../../move/mover.ts';
import { switched } from '../../move/switched.ts';
import type { Pools } from '../../pool/pools.ts';
import { version } from '../../version.ts';
import { type Changes, changeCalls } from './change.ts';
import { Dialer } from './dialer.ts';
import { type Look, viewStreams } from './look.ts';
import { copyCalls, moveCalls, type NodeMoves } from './moves.ts';

/** The links of a node to its controllers. */
export interface Links {
  /** Reports changes that no call shows: pools are open now. */
  look(): void;
  /** True while a controller has accepted this node. */
  isLinked(): boolean;
  /** Refuses new calls; running ones are answered. */
  leave(): void;
  stop(): Promise<void>;
}

export interface LinksOptions extends LinkConfig {
  readonly nodeId: string;
  readonly driverName: string;
  readonly calls: Calls;
  readonly look: Look;
  readonly changes: Changes;
  /** undefined: its volumes do not move. */
  readonly mover: Mover | undefined;
  /** undefined: its volumes do not move to other nodes. */
  readonly moves: NodeMoves | undefined;
  readonly pools: Pools;
  readonly log: Logger;
}

/** Calls that change the inventory. */
const changing: ReadonlySet<string> = new Set([
  'CreateVolume',
  'DeleteVolume',
  'ControllerExpandVolume',
  'ControllerModifyVolume',
  'CreateSnapshot',
  'DeleteSnapshot',
  'CreateVolumeGroupSnapshot',
  'DeleteVolumeGroupSnapshot',
  'NodeExpandVolume',
  'NodePublishVolume',
  'NodeUnpublishVolume',
]);

/** Calls come in bursts; their changes are reported once. */
const restMs = 200;

/**
 * Interval of reports for changes without a call: other programs fill a disk, an operator restores a volume, a pool
 * becomes sick.
 */
const lookMs = 5_000;

/** Interval of reports of moves, which change while they run. */
const moveMs = 1_000;

export function startLinks({
  calls,
  changes,
  driverName,
  log,
  look,
  mover,
  moves,
  nodeId,
  pools,
  ...place
}: LinksOptions): Links {
  const all = {
    unary: new Map([
      ...calls.unary,
      ...changeCalls(changes, { log }),
      ...(mover ? copyCalls(mover, { log }) : []),
      ...(moves ? moveCalls(moves, { log }) : []),
    ]),
    streams: new Map([...calls.streams, ...viewStreams(look, { log })]),
  };
  const link = { calls: all, pools, log, moves };
  const dialer = new Dialer({ ...place, nodeId, driverName, driverVersion: version, link });
  const running = dialer.run();
  let timer: NodeJS.Timeout | undefined;
  const lookNow = () => {
    clearTimeout(timer);
    timer = undefined;
    dialer.look().catch((error: unknown) => log.error({ err: error }, 'cannot send the inventory'));
  };
  const lookSoon = () => {
    timer ??= setTimeout(lookNow, restMs).unref();
  };
  callEnded.subscribe(({ rpc }) => {
    if (changing.has(rpc)) lookSoon();
  });
  // At once: the controller sends a deletion to the node that has the volume.
  switched.subscribe(lookNow);
  const tellMoves = () => {
    try {
      dialer.tellMoves();
    } catch {
      // The driver is starting: soon they are known.
    }
  };
  const movesOften = moves && setInterval(tellMoves, moveMs).unref();
  const regularly = setInterval(lookSoon, lookMs).unref();
  return {
    look: lookSoon,
    isLinked: () => dialer.isLinked,
    leave: () => dialer.leave(),
    async stop() {
      clearInterval(regularly);
      clearInterval(movesOften);
      clearTimeout(timer);
      dialer.stop();
      await running;
    },
  };
}
