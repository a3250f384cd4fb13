import { FailedPrecondition } from '../volume/errors.ts';
import type { AdminHandlers, VolumeOfLost } from './service.ts';

/** The end of a move that is lost, as an operator says. */
export type LostEnd = { readonly lostNode: string } | { readonly lostPool: string };

/** @returns undefined unless exactly one is named */
export function lostEndIn({ lostNode, lostPool }: Pick<VolumeOfLost, 'lostNode' | 'lostPool'>): LostEnd | undefined {
  if (lostPool === undefined) return lostNode === undefined ? undefined : { lostNode };
  return lostNode === undefined ? { lostPool } : undefined;
}

/**
 * The operations as root of this node may ask for them. That another node is lost, or has no later copy, is a fact that a controller can check,
 * so it is asked while it is there; without one, root decides.
 */
export function checkedByController(handlers: AdminHandlers, isLinked: () => Promise<boolean>): AdminHandlers {
  const requireUnlinked = async (
    { evenSo = false, id, lostNode, lostPool }: VolumeOfLost & { readonly evenSo?: boolean | undefined },
    command: string,
  ) => {
    if ((lostNode === undefined && lostPool === undefined && !evenSo) || !(await isLinked())) return;
    const asks =
      lostNode === undefined
        ? `asks all nodes whether one has volume ${id}`
        : `checks whether node ${lostNode} is lost`;
    const node = lostNode === undefined ? '' : ` --node-is-lost ${lostNode}`;
    const pool = lostPool === undefined ? '' : ` --pool-is-lost ${lostPool}`;
    const words = `${node}${pool}${evenSo ? ' --even-so' : ''}`;
    throw new FailedPrecondition(
      `the controller ${asks}: kubectl holdfast ${command} ${id}${words}, with this node as --node.`,
    );
  };
  return {
    ...handlers,
    async restore(request, call) {
      await requireUnlinked(request, 'trash restore');
      return handlers.restore(request, call);
    },
    async cancelMove(request, call) {
      await requireUnlinked(request, 'move cancel');
      return handlers.cancelMove(request, call);
    },
    async finishMove(request, call) {
      await requireUnlinked(request, 'move finish');
      return handlers.finishMove(request, call);
    },
  };
}
