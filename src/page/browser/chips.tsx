import { nameText } from './format.ts';
import { Chip } from './parts.tsx';
import type { Node, Pool, Volume } from './types.ts';

/** States of a pool that need an operator. */
export const sickStates = ['broken', 'quarantined', 'silent'];

export function nodeChip(state: Node['state']) {
  if (state === 'linked') return <Chip kind="good">linked</Chip>;
  return state === 'away' ? <Chip kind="bad">away</Chip> : <Chip kind="busy">telling</Chip>;
}

export function poolChip({ advice, damaged = [], state }: Pool) {
  if (sickStates.includes(state)) {
    return (
      <span title={nameText(advice ?? '')}>
        <Chip kind="bad">{state}</Chip>
      </span>
    );
  }
  if (damaged.length > 0) return <Chip kind="warn">{`${damaged.length} damaged`}</Chip>;
  return state === 'open' ? <Chip kind="good">open</Chip> : <Chip kind="quiet">{state}</Chip>;
}

export function volumeChip({ condition, state }: Pick<Volume, 'condition' | 'state'>) {
  if (condition !== undefined) {
    return (
      <span title={nameText(condition)}>
        <Chip kind="bad">not well</Chip>
      </span>
    );
  }
  return <Chip kind={state === 'published' ? 'good' : state === 'detached' ? 'quiet' : 'busy'}>{state}</Chip>;
}
