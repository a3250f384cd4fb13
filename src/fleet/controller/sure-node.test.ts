import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ToldMove } from './fleet-moves.ts';
import { type Answered, sureNode } from './sure-node.ts';

function moved(state: ToldMove['move']['state']): ToldMove {
  const move = { id: 'vol-x', from: 'data', to: 'data', fromNode: 'a', state, startedAt: '2026-01-01T00:00:00Z' };
  return { node: 'b', moveId: 'm', move };
}

const rows: readonly {
  readonly what: string;
  readonly having: readonly string[];
  readonly silent?: readonly string[];
  readonly recorded?: readonly string[];
  readonly moves?: readonly ToldMove[];
  readonly native?: string;
  readonly node: string | undefined;
}[] = [
  { what: 'all have answered, and one has it', having: ['b'], node: 'b' },
  { what: 'none has it', having: [], node: undefined },
  { what: 'two have it', having: ['a', 'b'], node: undefined },
  { what: 'it has moved, and another node is away', having: ['b'], silent: ['c'], moves: [moved('done')], node: 'b' },
  { what: 'it has moved, and its first node is away', having: ['b'], silent: ['a'], moves: [moved('done')], node: 'b' },
  {
    what: 'the move failed, and its target is away',
    having: ['a'],
    silent: ['b'],
    moves: [moved('failed')],
    node: undefined,
  },
  {
    what: 'the move failed, and another node is away',
    having: ['a'],
    silent: ['c'],
    moves: [moved('failed')],
    node: 'a',
  },
  { what: 'no move is known, and it is where it was made', having: ['a'], silent: ['c'], native: 'a', node: 'a' },
  {
    what: 'it is where it was made, and its PersistentVolume names a node that has not reported',
    having: ['a'],
    recorded: ['b'],
    native: 'a',
    node: undefined,
  },
  {
    what: 'it has moved, and its PersistentVolume names the first node, which is away',
    having: ['b'],
    silent: ['a'],
    recorded: ['a'],
    moves: [moved('done')],
    node: 'b',
  },
  {
    what: 'it has moved, and its PersistentVolume names a third node, which has not reported',
    having: ['b'],
    recorded: ['c'],
    moves: [moved('done')],
    node: undefined,
  },
  { what: 'no move is known, and it was made elsewhere', having: ['b'], silent: ['c'], native: 'a', node: undefined },
];

for (const { having, moves = [], native, node, recorded = [], silent = [], what } of rows) {
  test(`the node that surely has a volume: ${what}`, () => {
    const answered: Answered = {
      ...{ having: new Set(having), silent: new Set(silent), recorded, moves },
      isNative: (name) => name === native,
    };
    assert.equal(sureNode(answered), node);
  });
}
