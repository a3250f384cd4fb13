import { useLayoutEffect, useMemo, useReducer } from 'preact/hooks';
import type { BoardList } from '../messages.ts';
import { type Space, spaceOf, trashBytes } from './space.ts';
import type { Store } from './store.ts';
import type { Pool } from './types.ts';

/** Draws again after each change of the store. */
export function useStore(store: Store): void {
  const [, draw] = useReducer((count: number) => count + 1, 0);
  useLayoutEffect(() => {
    const unsubscribe = store.subscribe(() => draw(undefined));
    // It may have changed between the first drawing and now.
    draw(undefined);
    return unsubscribe;
  }, [store]);
}

/** A value that depends on some lists: made again only when one of them has changed, or another input. */
export function useMade<T>(
  store: Store,
  lists: readonly (BoardList | 'state')[],
  make: () => T,
  inputs: readonly unknown[] = [],
): T {
  return useMemo(make, [...lists.map((list) => store.versions[list]), ...inputs]);
}

/** A pool, and its space if it is known. */
export interface PoolRow {
  readonly key: string;
  readonly pool: Pool;
  readonly space: Space | undefined;
}

/** All pools, each with its space. */
export function usePools(store: Store): readonly PoolRow[] {
  return useMade(store, ['pools', 'trash'], () => {
    const { pools, trash } = store.tables;
    const trashed = trashBytes(trash.values());
    return [...pools].map(([key, pool]) => ({ key, pool, space: spaceOf(pool, trashed.get(key) ?? 0) }));
  });
}
