import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MoveJob } from '../../move/job.ts';
import type { MoveSight } from '../../move/mover.ts';
import { volumeIdFor } from '../../volume/id.ts';
import { MovesTeller, type NodeMoves } from './moves.ts';

function sightOf(name: string, state: MoveJob['state'], startedAt: string): MoveSight {
  const job = { moveId: name, id: volumeIdFor('a', 'data', name), from: 'one', to: 'two', startedAt, state };
  return { job, progress: undefined, trouble: undefined, isUnconnected: false };
}

test('a move that runs is reported however many have begun, and ended, since', () => {
  const ended = Array.from({ length: 600 }, (_each, at) => sightOf(`ended-${at}`, 'done', '2026-11-20T00:00:00.000Z'));
  const running = sightOf('running', 'running', '2026-11-01T00:00:00.000Z');
  const told: (string | null | undefined)[] = [];
  const mover = { sights: () => [...ended, running] };
  const teller = new MovesTeller({ mover, address: ':1' } as unknown as NodeMoves, ({ moves }) =>
    told.push(...(moves?.moves ?? []).map((move) => move?.move_id)),
  );
  teller.tell();
  assert.equal(told.length, 500);
  assert.equal(told[0], 'running');
});
