import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { NvmeController } from '../../../kernel/block/nvme.ts';
import { parseNote, serializeNote } from '../../network-disk/connection-notes.ts';
import { type Connection, isOurs, noteFormat } from './connections.ts';

const made: Connection = { traddr: '10.0.0.1', trsvcid: '4420', hostNqn: 'ours', controller: 'nvme3' };

function controller(
  changes: Partial<NvmeController> = {},
  words: Readonly<Record<string, string>> = {},
): NvmeController {
  const address = new Map(Object.entries({ traddr: '10.0.0.1', trsvcid: '4420', ...words }));
  return { name: 'nvme3', transport: 'tcp', address, state: 'live', hostNqn: 'ours', ...changes };
}

describe('connections of this driver', () => {
  test('the one that it has made', () => {
    assert.ok(isOurs({ connections: [made] }, controller()));
  });

  test('one that it was about to make when it died', () => {
    assert.ok(isOurs({ connections: [{ ...made, controller: undefined }] }, controller({ name: 'nvme7' })));
  });

  const others: Readonly<Record<string, NvmeController>> = {
    'the same path, connected again by somebody since': controller({ name: 'nvme4' }),
    'another address': controller({}, { traddr: '10.0.0.2' }),
    'another port': controller({}, { trsvcid: '4421' }),
    'another host NQN': controller({ hostNqn: 'theirs' }),
    'no host NQN': controller({ hostNqn: undefined }),
    'another transport': controller({ transport: 'rdma' }),
  };
  for (const [what, other] of Object.entries(others)) {
    test(`not ${what}`, () => assert.ok(!isOurs({ connections: [made] }, other)));
  }

  test('none without a note', () => assert.ok(!isOurs({ connections: [] }, controller())));
});

describe('the note on a subsystem', () => {
  const connections: fc.Arbitrary<Connection> = fc.record(
    { traddr: fc.ipV4(), trsvcid: fc.string(), hostNqn: fc.string(), controller: fc.string() },
    { requiredKeys: ['traddr', 'trsvcid', 'hostNqn'], noNullPrototype: true },
  );
  const notes = fc.record(
    { users: fc.array(fc.string()), connections: fc.array(connections) },
    { noNullPrototype: true },
  );

  test('is read as it was written', () => {
    fc.assert(
      fc.property(notes, fc.string(), (note, boot) => {
        assert.deepEqual(parseNote(noteFormat, serializeNote(noteFormat, 'nqn.a', boot, note), boot), note);
      }),
    );
  });

  test('names nothing after a reboot, nor when it is damaged: a connection stays rather than the wrong one ends', () => {
    const text = serializeNote(noteFormat, 'nqn.a', 'boot', { users: ['a'], connections: [made] });
    const nothing = { users: [], connections: [] };
    for (const [given, boot] of [
      [text, 'another'],
      [text.slice(0, -3), 'boot'],
      ['', 'boot'],
    ] as const) {
      assert.deepEqual(parseNote(noteFormat, given, boot), nothing);
    }
  });
});
