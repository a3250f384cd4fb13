import type { FleetState } from '../../../src/fleet/controller/fleet-state.ts';

/** A node links, and reports these volumes. @param isComplete false: it has more to report */
export function tell(state: FleetState, node: string, ids: readonly string[], isComplete = true): void {
  const inventory = state.linked(node);
  const put = ids.map((id) => {
    const from = { source_id: '', group_id: '', adopted: false };
    return { kind: 'VOLUME' as const, id, name: 'data', pool: 'data', ...from };
  });
  inventory.apply({ revision: 1n, starts: true, complete: isComplete, put, gone: [], pools: [] });
  state.told(node, inventory);
}
