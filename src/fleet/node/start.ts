import type { Logger } from 'pino';
import type { LinkConfig } from '../../config/config.ts';
import type { Calls } from '../../csi/call.ts';
import { callEnded } from '../../csi/call-events.ts';
import type { Pools } from '../../pool/pools.ts';
import { version } from '../../version.ts';
import { Dialer } from './dialer.ts';
import { type Look, viewStreams } from './look.ts';

/** The links of a node to its controllers. */
export interface Links {
  /** Something may have changed that no call tells of: pools are open now. */
  look(): void;
  /** No new calls are taken; those that run are answered. */
  leave(): void;
  stop(): Promise<void>;
}

export interface LinksOptions extends LinkConfig {
  readonly nodeId: string;
  readonly driverName: string;
  readonly calls: Calls;
  readonly look: Look;
  readonly pools: Pools;
  readonly log: Logger;
}

/** Calls after which there is something to tell. */
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

/** Calls come in crowds; what they have changed is told once. */
const restMs = 200;

/** For what no call changes: a disk that others fill, a volume that an operator brings back, a pool that falls sick. */
const lookMs = 5_000;

export function startLinks({ calls, driverName, log, look, nodeId, pools, ...place }: LinksOptions): Links {
  const all = { unary: calls.unary, streams: new Map([...calls.streams, ...viewStreams(look, { log })]) };
  const link = { calls: all, pools, log };
  const dialer = new Dialer({ ...place, nodeId, driverName, driverVersion: version, link });
  const running = dialer.run();
  let timer: NodeJS.Timeout | undefined;
  const lookNow = () => {
    timer = undefined;
    dialer.look().catch((error: unknown) => log.error({ err: error }, 'what the node has cannot be told'));
  };
  const lookSoon = () => {
    timer ??= setTimeout(lookNow, restMs).unref();
  };
  callEnded.subscribe(({ rpc }) => {
    if (changing.has(rpc)) lookSoon();
  });
  const regularly = setInterval(lookSoon, lookMs).unref();
  return {
    look: lookSoon,
    leave: () => dialer.leave(),
    async stop() {
      clearInterval(regularly);
      clearTimeout(timer);
      dialer.stop();
      await running;
    },
  };
}
