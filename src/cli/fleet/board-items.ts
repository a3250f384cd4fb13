import type { z } from 'zod';
import type { Board } from '../../page/board.ts';
import type { anyItem } from './shapes.ts';

type AnyItem = z.infer<typeof anyItem>;
type List = keyof AnyItem;

/** The key of an item among those of its list and its node. */
const keys: { readonly [Each in List]: (item: NonNullable<AnyItem[Each]>) => string } = {
  pools: ({ name }) => name,
  volumes: ({ id }) => id,
  snapshots: ({ id }) => id,
  trash: ({ deletedAt, id }) => `${id}/${deletedAt}`,
  moves: ({ id }) => id,
};

/**
 * Puts all that a node has answered on a board, in the place of the items that it had.
 * @returns false if there was no room for all of it
 */
export function showItems(board: Board, node: string, items: readonly AnyItem[]): boolean {
  const show = <Each extends List>(list: Each): boolean =>
    board.replace(
      list,
      node,
      items.flatMap((item) => {
        const one = item[list];
        return one === undefined ? [] : [[`${node}/${keys[list](one)}`, { ...one, node }] as const];
      }),
    );
  return [show('pools'), show('volumes'), show('snapshots'), show('trash'), show('moves')].every(Boolean);
}
