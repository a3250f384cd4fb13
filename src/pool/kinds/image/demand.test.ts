import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Demand } from './demand.ts';

describe('the demand for templates', () => {
  test('a name that is asked for again is worth an exchange, one that comes once is not', () => {
    const demand = new Demand();
    for (const name of ['a', 'b', 'c', 'c']) demand.note(name);
    assert.equal(demand.isWorthExchange('c', ['a', 'b']), false);
    demand.note('c');
    assert.equal(demand.isWorthExchange('c', ['a', 'b']), true);
    assert.equal(demand.isWorthExchange('d', ['a', 'b']), false);
  });

  test('of 24 names in turn, none is worth an exchange for another', () => {
    const demand = new Demand();
    const names = Array.from({ length: 24 }, (_, index) => `${index}`);
    const present = names.slice(0, 16);
    for (let round = 0; round < 10; round++) {
      for (const name of names) {
        demand.note(name);
        assert.equal(demand.isWorthExchange(name, present), false, name);
      }
    }
  });

  test('a name that is no longer asked for makes room after 64 other requests', () => {
    const demand = new Demand();
    for (let index = 0; index < 64; index++) demand.note('old');
    for (let index = 0; index < 32; index++) demand.note('new');
    assert.equal(demand.isWorthExchange('new', ['old']), false);
    for (let index = 0; index < 2; index++) demand.note('new');
    assert.equal(demand.isWorthExchange('new', ['old']), true);
    for (let index = 0; index < 64; index++) demand.note('new');
    assert.equal(demand.of('old'), 0);
  });
});
