import { FailedPrecondition } from '../volume/errors.ts';
import type { AdminHandlers, VolumeOfLost, VolumeOfLostNode } from './service.ts';

/**
 * The operations as root of this node may ask for them. That another node is lost is a fact that a controller can check, so it
 * is asked while it is there; without one, root decides.
 */
export function checkedByController(handlers: AdminHandlers, isLinked: () => Promise<boolean>): AdminHandlers {
  const requireUnlinked = async ({ lostNode }: VolumeOfLostNode, command: string) => {
    if (lostNode === undefined || !(await isLinked())) return;
    throw new FailedPrecondition(
      `the controller checks whether node ${lostNode} is lost: kubectl holdfast ${command} VOLUME --node-is-lost ${lostNode}.`,
    );
  };
  const requirePoolUnlinked = async ({ lostPool }: VolumeOfLost, command: string) => {
    if (lostPool === undefined || !(await isLinked())) return;
    throw new FailedPrecondition(
      `the controller asks all nodes whether one has the volume: kubectl holdfast ${command} VOLUME --pool-is-lost ${lostPool}.`,
    );
  };
  return {
    ...handlers,
    async restore(request, call) {
      await requireUnlinked(request, 'trash restore');
      await requirePoolUnlinked(request, 'trash restore');
      return handlers.restore(request, call);
    },
    async cancelMove(request, call) {
      await requireUnlinked(request, 'move cancel');
      return handlers.cancelMove(request, call);
    },
    async finishMove(request, call) {
      await requireUnlinked(request, 'move finish');
      await requirePoolUnlinked(request, 'move finish');
      return handlers.finishMove(request, call);
    },
  };
}
