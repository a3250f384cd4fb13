import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ReadTurns } from './read-turns.ts';

const { signal } = new AbortController();

test('turns are taken in their order, and urgent ones come first', async () => {
  const turns = new ReadTurns(1);
  const began: string[] = [];
  const take = async (name: string, isUrgent: boolean) => {
    const turn = await turns.take(isUrgent, signal);
    began.push(name);
    return turn;
  };
  const first = await take('first', false);
  const rest = [take('second', false), take('third', false), take('urgent', true), take('urgent later', true)];
  first[Symbol.dispose]();
  // Only once.
  first[Symbol.dispose]();
  const [second, third, urgent, later] = rest;
  for (const turn of [urgent, later, second, third]) (await turn)?.[Symbol.dispose]();
  assert.deepEqual(began, ['first', 'urgent', 'urgent later', 'second', 'third']);
  const [again] = await Promise.all([take('again', false)]);
  again[Symbol.dispose]();
});

test('a move that had a turn takes one again, and the others wait for one more', async () => {
  const turns = new ReadTurns(1);
  const held = await turns.take(false, signal);
  const again = turns.takeAgain();
  let began = false;
  const next = turns.take(true, signal).then((turn) => {
    began = true;
    return turn;
  });
  held[Symbol.dispose]();
  await Promise.resolve();
  assert.equal(began, false);
  again[Symbol.dispose]();
  using _next = await next;
});

test('moves whose volumes are in use leave turns for the others', async () => {
  const turns = new ReadTurns(3);
  const held = [await turns.take(false, signal), await turns.take(false, signal)];
  assert.deepEqual([turns.areTaken(false), turns.areTaken(true)], [true, false]);
  const third = turns.take(false, signal);
  held.push(await turns.take(true, signal));
  // A move whose volume is in use does not get the turn of an urgent one.
  held.pop()?.[Symbol.dispose]();
  assert.deepEqual([turns.areTaken(false), turns.areTaken(true)], [true, false]);
  held.pop()?.[Symbol.dispose]();
  using _third = await third;
});

test('a move that is given up while it waits takes no turn', async () => {
  const turns = new ReadTurns(2);
  const held = [await turns.take(false, signal), await turns.take(false, signal)];
  const ending = new AbortController();
  const given = turns.take(false, ending.signal);
  const next = turns.take(false, signal);
  ending.abort(new Error('given up'));
  await assert.rejects(given, /given up/);
  held[0]?.[Symbol.dispose]();
  using _next = await next;
  await assert.rejects(turns.take(false, ending.signal), /given up/);
});
