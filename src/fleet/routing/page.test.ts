import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Unavailable } from '../../volume/errors.ts';
import { FleetState } from '../controller/fleet-state.ts';
import { mergePage, type PagePart, planPage } from './page.ts';

const names = ['a', 'b', 'c'];

function fleet(told = names): FleetState {
  const state = new FleetState();
  state.expect(names);
  for (const name of told) {
    const inventory = state.linked(name);
    inventory.apply({ revision: 1n, starts: true, complete: true, put: [], gone: [], pools: [] });
    state.told(name, inventory);
  }
  return state;
}

/** A node's answer to ListVolumes. */
function partOf(own: readonly string[], after: string, maximumEntries: number): PagePart<string> {
  const later = own.filter((id) => id > after).sort();
  const entries = later.slice(0, maximumEntries);
  return {
    entries: entries.map((id) => ({ id, entry: id })),
    nextToken: later.length > entries.length ? (entries.at(-1) ?? '') : '',
  };
}

test('LV04: without one of the nodes there is no list', () => {
  const page = { after: undefined, maximumEntries: 10 };
  assert.throws(() => planPage(fleet(['a', 'c']), new Map(), page), Unavailable);
});

test('only nodes with entries of the page are asked, and for no more than those', () => {
  const ids = new Map([
    ['a', ['1', '4']],
    ['b', ['2', '5']],
    ['c', ['9']],
  ]);
  const plan = planPage(fleet(), ids, { after: '1', maximumEntries: 2 });
  assert.deepEqual(plan, {
    parts: [
      { node: 'b', maximumEntries: 1 },
      { node: 'a', maximumEntries: 1 },
    ],
    upTo: '4',
  });
});

test('N02: page by page, whatever comes and goes meanwhile, what stays is shown once', () => {
  const owned = fc.uniqueArray(fc.integer({ min: 10, max: 99 }), { maxLength: 40 });
  const change = fc.record({
    id: fc.integer({ min: 10, max: 99 }),
    node: fc.constantFrom(...names),
    isNew: fc.boolean(),
  });
  fc.assert(
    fc.property(owned, fc.integer({ min: 1, max: 7 }), fc.array(change, { maxLength: 20 }), (all, size, changes) => {
      const now = new Map(names.map((name, index) => [name, all.filter((id) => id % 3 === index).map(String)]));
      const stays = new Set(all.map(String));
      const known = new Map([...now].map(([node, ids]) => [node, [...ids]]));
      const shown: string[] = [];
      let after = '';
      for (;;) {
        const plan = planPage(fleet(), known, { after: after === '' ? undefined : after, maximumEntries: size });
        // A change happens that the inventory does not show yet.
        const next = changes.pop();
        if (next !== undefined) {
          const id = String(next.id);
          const own = now.get(next.node) ?? [];
          if (next.isNew && ![...now.values()].flat().includes(id)) own.push(id);
          if (!next.isNew && own.includes(id)) {
            own.splice(own.indexOf(id), 1);
            stays.delete(id);
          }
        }
        const parts = plan.parts.map(({ maximumEntries, node }) => partOf(now.get(node) ?? [], after, maximumEntries));
        const page = mergePage(parts, plan);
        shown.push(...page.entries);
        for (const [node, ids] of now) known.set(node, [...ids]);
        if (page.nextToken === '') break;
        assert.ok(page.nextToken > after, 'it goes on');
        after = page.nextToken;
      }
      assert.equal(new Set(shown).size, shown.length, 'nothing twice');
      for (const id of stays) assert.ok(shown.includes(id), `${id} was left out`);
    }),
  );
});
