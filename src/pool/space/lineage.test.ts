import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { Lineage, type Relative } from './lineage.ts';

const createdAt = '2026-01-01T00:00:00.000Z';
const relative = (id: string, sourceId?: string): Relative => ({ id, createdAt, sourceId });
const sharers = (lineage: Lineage, id: string) => lineage.sharers(relative(id)).sort();

describe('what may share blocks, by its records', () => {
  test('a volume shares with its snapshots, their clones, and what was cloned from it', () => {
    const lineage = new Lineage();
    lineage.begin([relative('clone', 'snapshot'), relative('snapshot', 'a'), relative('a'), relative('b')]);
    assert.deepEqual(sharers(lineage, 'a'), ['clone', 'snapshot']);
    assert.deepEqual(sharers(lineage, 'clone'), ['a', 'snapshot']);
    assert.ok(lineage.isAlone(relative('b')));
  });

  test('when the last of them is gone it is alone', () => {
    const lineage = new Lineage();
    lineage.begin([relative('a')]);
    lineage.add(relative('first', 'a'));
    lineage.add(relative('second', 'a'));
    lineage.remove(relative('first'));
    assert.deepEqual(sharers(lineage, 'a'), ['second']);
    lineage.remove(relative('second'));
    assert.ok(lineage.isAlone(relative('a')));
  });

  test('clones of what is gone share with each other', () => {
    const lineage = new Lineage();
    lineage.begin([relative('a')]);
    for (const id of ['b', 'c']) lineage.add(relative(id, 'a'));
    lineage.remove(relative('a'));
    assert.deepEqual(sharers(lineage, 'b'), ['c']);
    lineage.remove(relative('c'));
    assert.ok(lineage.isAlone(relative('b')));
  });

  test('a clone of what was gone before the start may share with all that was there, and with nothing that came later', () => {
    const lineage = new Lineage();
    lineage.begin([relative('orphan', 'gone'), relative('a'), relative('b'), relative('kept', 'a')]);
    lineage.add(relative('new'));
    lineage.add(relative('grandchild', 'a'));
    assert.deepEqual(sharers(lineage, 'orphan'), ['a', 'b', 'grandchild', 'kept']);
    assert.deepEqual(sharers(lineage, 'b'), ['orphan']);
    assert.deepEqual(sharers(lineage, 'a'), ['grandchild', 'kept', 'orphan']);
    assert.ok(lineage.isAlone(relative('new')));
    lineage.remove(relative('orphan'));
    assert.ok(lineage.isAlone(relative('b')));
  });

  test('a new volume with the id of a deleted one is another one', () => {
    const lineage = new Lineage();
    lineage.begin([relative('a')]);
    lineage.add(relative('clone', 'a'));
    lineage.add({ id: 'a', createdAt: '2026-01-02T00:00:00.000Z' });
    assert.ok(lineage.isAlone({ id: 'a', createdAt: '2026-01-02T00:00:00.000Z' }));
    lineage.remove(relative('a'));
    assert.ok(lineage.isAlone(relative('clone')));
  });

  test('in whatever order they come: an id that was used before does not lead to the wrong one', () => {
    const later = '2026-01-02T00:00:00.000Z';
    const [fresh, deleted] = [
      { id: 'v', createdAt: later },
      { id: 'v', createdAt },
    ];
    const snapshot = { id: 's', createdAt: '2026-01-03T00:00:00.000Z', sourceId: 'v' };
    const other = relative('other');
    fc.assert(
      fc.property(fc.shuffledSubarray([fresh, deleted, snapshot, other], { minLength: 4 }), (relatives) => {
        const lineage = new Lineage();
        lineage.begin(relatives);
        for (const each of [fresh, deleted]) assert.ok(lineage.sharers(each).includes('s'), each.createdAt);
        assert.deepEqual(lineage.sharers(snapshot).sort(), ['v', 'v']);
        assert.ok(lineage.isAlone(other));
        // The live one is the source of the next one.
        lineage.add({ id: 'clone', createdAt: '2026-01-04T00:00:00.000Z', sourceId: 'v' });
        assert.ok(lineage.sharers(fresh).includes('clone'));
      }),
    );
  });

  test('whatever was there at the start, what is told to be alone shares with nobody', () => {
    const made = fc.record({ from: fc.option(fc.nat({ max: 12 }), { nil: undefined }), isThere: fc.boolean() });
    fc.assert(
      fc.property(fc.array(made, { maxLength: 12 }), fc.array(fc.nat(), { maxLength: 6 }), (all, removed) => {
        const there = all.flatMap(({ from, isThere }, at) =>
          isThere ? [relative(`${at}`, from === undefined || from >= at ? undefined : `${from}`)] : [],
        );
        const lineage = new Lineage();
        lineage.begin(there);
        for (const at of removed) {
          const [gone] = there.splice(at % Math.max(1, there.length), 1);
          if (gone !== undefined) lineage.remove(gone);
        }
        for (const each of there) assert.equal(lineage.isAlone(each), lineage.sharers(each).length === 0, each.id);
      }),
    );
  });

  test('whatever comes and goes, it is as if the whole history were known', () => {
    const change = fc.record({ at: fc.nat(), isMade: fc.boolean(), hasSource: fc.boolean() });
    fc.assert(
      fc.property(fc.array(change, { maxLength: 40 }), (changes) => {
        const lineage = new Lineage();
        lineage.begin([]);
        const roots = new Map<string, string>();
        const there: string[] = [];
        for (const [index, { at, hasSource, isMade }] of changes.entries()) {
          const chosen = there[at % Math.max(1, there.length)];
          if (isMade || chosen === undefined) {
            const source = hasSource ? chosen : undefined;
            const id = `${index}`;
            lineage.add(relative(id, source));
            roots.set(id, source === undefined ? id : (roots.get(source) ?? ''));
            there.push(id);
          } else {
            lineage.remove(relative(chosen));
            there.splice(there.indexOf(chosen), 1);
          }
        }
        for (const id of there) {
          assert.equal(lineage.isAlone(relative(id)), sharers(lineage, id).length === 0);
          const expected = there.filter((other) => other !== id && roots.get(other) === roots.get(id));
          assert.deepEqual(sharers(lineage, id), expected.sort());
        }
      }),
    );
  });
});
