import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { IscsiSession } from '../../../kernel/block/iscsi.ts';
import { parseNote, serializeNote } from '../../network-disk/connection-notes.ts';
import { type Connection, type IscsiNote, isOurs, lunsOf, noteFormat } from './connections.ts';

const portal = { address: '10.0.0.1', port: '3260' };
const made: Connection = { ...portal, session: 3 };
const lun = {
  ...{ lun: '1', address: '2:0:0:1', name: 'sda', devicePath: '/dev/sda', sizeBytes: 0n },
  device: { major: 8, minor: 0 },
};

function session(changes: Partial<IscsiSession> = {}): IscsiSession {
  return {
    ...{ id: 3, name: 'session3', targetName: 'iqn.a', ifaceName: 'holdfast', state: 'LOGGED_IN', portal },
    ...{ host: '2', targetId: '0', luns: [lun] },
    ...changes,
  };
}

describe('sessions of this driver', () => {
  test('the one that it has made', () => assert.ok(isOurs({ connections: [made] }, session())));

  test('one that it was about to make when it died', () => {
    assert.ok(isOurs({ connections: [{ ...made, session: undefined }] }, session({ id: 7 })));
  });

  const others: Readonly<Record<string, IscsiSession>> = {
    'the same path, logged in again by another program since': session({ id: 4 }),
    'another portal': session({ portal: { ...portal, address: '10.0.0.2' } }),
    'another port': session({ portal: { ...portal, port: '3261' } }),
    'one of the host': session({ ifaceName: 'default' }),
    'one without a name': session({ ifaceName: undefined }),
    'one without a connection': session({ portal: undefined }),
  };
  for (const [what, other] of Object.entries(others)) {
    test(`not ${what}`, () => assert.ok(!isOurs({ connections: [made] }, other)));
  }

  test('none without a note', () => assert.ok(!isOurs({ connections: [] }, session())));
});

describe('the devices of a volume', () => {
  test('are at its number, through its portals', () => {
    const place = { lun: '1', portals: [portal] };
    assert.deepEqual(lunsOf([session()], place), [lun]);
    assert.deepEqual(lunsOf([session()], { ...place, lun: '2' }), []);
    assert.deepEqual(lunsOf([session({ portal: { ...portal, port: '3261' } })], place), []);
  });
});

describe('the note on a target', () => {
  const note: IscsiNote = { users: ['a'], connections: [made, { ...portal, port: '1' }], identities: { a: '1 naa.1' } };

  test('is read as it was written, and names nothing after a reboot', () => {
    const text = serializeNote(noteFormat, 'iqn.a', 'boot', note);
    assert.deepEqual(parseNote(noteFormat, text, 'boot'), note);
    assert.deepEqual(parseNote(noteFormat, text, 'another'), { users: [], connections: [] });
  });
});
