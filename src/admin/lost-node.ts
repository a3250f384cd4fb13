import { FailedPrecondition } from '../volume/errors.ts';
import type { AdminHandlers, VolumeOfLostNode } from './service.ts';

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
  return {
    ...handlers,
    async restore(request, call) {
      await requireUnlinked(request, 'trash restore');
      const { lostPool } = request;
      if (lostPool !== undefined && (await isLinked())) {
        throw new FailedPrecondition(
          `the controller asks all nodes whether one has the volume: kubectl holdfast trash restore VOLUME --pool-is-lost ${lostPool}.`,
        );
      }
      return handlers.restore(request, call);
    },
    async cancelMove(request, call) {
      await requireUnlinked(request, 'move cancel');
      return handlers.cancelMove(request, call);
    },
  };
}
