import type { AdminHandlers, CancelOrder, VolumeOfLost, VolumeOfLostNode } from '../../admin/service.ts';
import { methodsOf } from '../../csi/contract.ts';
import type * as wire from '../../csi/generated/types.ts';
import type { ChangeHandlers } from '../../csi/generated/types.ts';
import { type CallOptions, handled, type UnaryCall, unaryCall } from '../../csi/pipeline.ts';
import { InvalidArgument } from '../../volume/errors.ts';
import { parseVolumeId, type VolumeId } from '../../volume/id.ts';

/** The operator's commands that can also be asked for through the controller. */
export type Changes = Pick<AdminHandlers, 'cancelMove' | 'finishMove' | 'purge' | 'restore'>;

/** The calls with which the controller has this node change something: the same handlers as those of the admin socket. */
export function changeCalls(changes: Changes, options: CallOptions): ReadonlyMap<string, UnaryCall> {
  const lostOrder = (request: wire.ChangeRequest) => ({
    ...lostIn(request),
    ...wordIn(request),
    evenSo: request.even_so,
  });
  const cancelOrder = (request: wire.ChangeRequest) => ({
    ...volumeIn(request),
    ...wordIn(request),
    evenSo: request.even_so,
  });
  const handlers: ChangeHandlers = {
    async RestoreTrashed(request, call) {
      return { result: JSON.stringify(await changes.restore(lostOrder(request), call)) };
    },
    async PurgeTrashed({ volume_id }, call) {
      return { result: JSON.stringify(await changes.purge({ id: idIn(volume_id) }, call)) };
    },
    async CancelMove(request, call) {
      return { result: JSON.stringify(await changes.cancelMove(cancelOrder(request), call)) };
    },
    async FinishMove(request, call) {
      return { result: JSON.stringify(await changes.finishMove(lostOrder(request), call)) };
    },
    async GiveUpMove(request, call) {
      const order = { ...volumeIn(request), isComing: true, evenSo: request.even_so };
      return { result: JSON.stringify(await changes.cancelMove(order, call)) };
    },
    async CheckRestore(request, call) {
      return { result: JSON.stringify(await changes.restore({ ...lostOrder(request), isTrial: true }, call)) };
    },
    async CheckCancel(request, call) {
      return { result: JSON.stringify(await changes.cancelMove({ ...cancelOrder(request), isTrial: true }, call)) };
    },
    async CheckFinish(request, call) {
      return { result: JSON.stringify(await changes.finishMove({ ...lostOrder(request), isTrial: true }, call)) };
    },
  };
  const byName: Readonly<Record<string, ChangeHandlers[keyof ChangeHandlers]>> = handlers;
  const calls = methodsOf('holdfast.fleet.v1.Change').map(
    (method) => [method.path, unaryCall(method, handled(method, byName[method.name]), options)] as const,
  );
  return new Map(calls);
}

/** The controller knows that the other node is lost. */
function volumeIn({ later_than, lost_node: lostNode, volume_id, words }: wire.ChangeRequest): VolumeOfLostNode {
  const id = idIn(volume_id);
  if (lostNode === '') return { id };
  return {
    id,
    lostNode,
    words: Math.min(words, maxWords),
    ...(later_than !== 0n && { laterThan: generationIn(later_than) }),
  };
}

/**
 * The word of the node that the volume was handed over to. It counts with the name of that node alone: no published controller has sent
 * it without.
 */
function wordIn({ disclaimed, lost_node: lostNode }: wire.ChangeRequest): Pick<CancelOrder, 'disclaimed'> {
  return lostNode === '' || disclaimed === 0n ? {} : { disclaimed: generationIn(disclaimed) };
}

/** Each takes a million generations. */
const maxWords = 1_000;

/** A later one cannot be noted, nor one after it. */
const maxGeneration = 1n << 52n;

/** @throws InvalidArgument */
export function generationIn(generation: bigint): number {
  if (generation > 0n && generation <= maxGeneration) return Number(generation);
  throw new InvalidArgument(`${generation} is no generation of a volume.`);
}

/** The controller knows that no other node has the volume. */
function lostIn(request: wire.ChangeRequest): VolumeOfLost {
  const { lost_pool: lostPool } = request;
  return { ...volumeIn(request), ...(lostPool !== '' && { lostPool }) };
}

/** Never empty: a purge without an id would be one of the whole trash. @throws InvalidArgument */
export function idIn(text: string): VolumeId {
  const id = parseVolumeId(text);
  if (id === undefined) throw new InvalidArgument(`${JSON.stringify(text.slice(0, 64))} is no volume id.`);
  return id;
}
