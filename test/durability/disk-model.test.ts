import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { DiskEvent } from './disk-event.ts';
import { lostByPowerCut } from './disk-model.ts';
import { poolRules } from './pool-rules.ts';
import { diskEvents, parseTrace } from './strace.ts';

const rules = poolRules('/pool');

type Told<Event = DiskEvent> = Event extends DiskEvent ? Omit<Event, 'start' | 'end'> : never;

/** One after the other. */
function story(...told: readonly Told[]): DiskEvent[] {
  return told.map((event, index) => ({ ...event, start: 2 * index, end: 2 * index + 1 }));
}

const open = (path: string) => ({ kind: 'open', path, isCreated: true }) as const;
const write = (path: string, isDurable = false) => ({ kind: 'write', path, isDurable }) as const;
const sync = (path: string) => ({ kind: 'sync', path }) as const;
const writeOut = (path: string) => ({ kind: 'write-out', path }) as const;
const make = (path: string) => ({ kind: 'make', path }) as const;
const remove = (path: string) => ({ kind: 'remove', path }) as const;
const rename = (from: string, to: string) => ({ kind: 'rename', from, to }) as const;
const answer = { kind: 'answer', to: 'a call' } as const;

/** Makes a volume as the driver does, but for what is left out. */
function creation(leftOut?: string): DiskEvent[] {
  const steps: readonly (readonly [string, Told])[] = [
    ['directory', make('/pool/tmp/v.1')],
    ['data', open('/pool/tmp/v.1/data')],
    ['write', write('/pool/tmp/v.1/data')],
    ['sync of the image', sync('/pool/tmp/v.1/data')],
    ['record', open('/pool/tmp/v.1/volume.json')],
    ['record', write('/pool/tmp/v.1/volume.json', leftOut !== 'O_SYNC')],
    ['sync of the draft', sync('/pool/tmp/v.1')],
    ['commit', rename('/pool/tmp/v.1', '/pool/volumes/v')],
    ['sync of volumes', sync('/pool/volumes')],
  ];
  return story(...steps.filter(([name]) => name !== leftOut).map(([, step]) => step), answer);
}

describe('what a power cut at the answer could take', () => {
  test('nothing, if all is synced in its order', () => {
    assert.deepEqual(lostByPowerCut(creation(), rules), []);
  });

  for (const [leftOut, complaint] of [
    [
      'sync of the image',
      /^\/pool\/tmp\/v\.1\/data was not synced when it was renamed to \/pool\/volumes\/v \(written\)/,
    ],
    ['O_SYNC', /^\/pool\/tmp\/v\.1\/volume\.json was not synced when it was renamed/],
    ['sync of the draft', /^\/pool\/tmp\/v\.1 was not synced when it was renamed .*make of .*volume\.json/],
    ['sync of volumes', /^\/pool\/volumes was not synced when a call was answered \(rename of \/pool\/volumes\/v\)/],
  ] as const) {
    test(`without ${leftOut}`, () => {
      const complaints = lostByPowerCut(creation(leftOut), rules);
      assert.equal(complaints.length, 1, `${complaints}`);
      assert.match(complaints[0] ?? '', complaint);
    });
  }

  test('a sync that began before the write had returned does not count, nor does one after the rename', () => {
    const at = (start: number, end: number, event: Told): DiskEvent => ({ ...event, start, end });
    const path = '/pool/volumes/v/data';
    const late = [at(1, 4, write(path)), at(3, 6, sync(path)), at(8, 8, answer)];
    assert.equal(lostByPowerCut(late, rules).length, 1);
    const early = [at(1, 2, write(path)), at(3, 6, sync(path)), at(8, 8, answer)];
    assert.deepEqual(lostByPowerCut(early, rules), []);
    const draft = '/pool/groups/g.json.new';
    const beside = [
      at(1, 2, write(draft)),
      at(3, 6, sync(draft)),
      at(4, 7, rename(draft, '/pool/groups/g.json')),
      at(8, 9, sync('/pool/groups')),
    ];
    assert.equal(lostByPowerCut(beside, rules).length, 1);
  });

  test('what is written behind the answer is the next one’s', () => {
    const path = '/pool/volumes/v/data';
    assert.deepEqual(lostByPowerCut(story(answer, write(path)), rules), []);
    assert.equal(lostByPowerCut(story(answer, write(path), answer), rules).length, 1);
  });

  test('a name that goes has to be gone; what is unlinked in the trash does not', () => {
    assert.equal(lostByPowerCut(story(remove('/pool/groups/g.json'), answer), rules).length, 1);
    assert.deepEqual(
      lostByPowerCut(story(remove('/pool/trash/v.1/data'), remove('/pool/trash/v.1'), answer), rules),
      [],
    );
    const trashed = story(rename('/pool/volumes/v', '/pool/trash/v.1'), answer);
    assert.equal(lostByPowerCut(trashed, rules).length, 2);
  });

  test('the mark in the trash is gone before what it keeps, and a copy is as far as its note says', () => {
    const [mark, data] = ['/pool/trash/v.1/deleted.json', '/pool/trash/v.1/data'];
    assert.deepEqual(
      lostByPowerCut(story(remove(mark), sync('/pool/trash/v.1'), write(data), remove(data)), rules),
      [],
    );
    assert.match(
      `${lostByPowerCut(story(remove(mark), write(data)), rules)}`,
      /before a write of .*remove of .*deleted/,
    );
    const copy = (...between: Told[]) =>
      story(write('/pool/tmp/v.copy/data'), ...between, rename('/pool/tmp/v.copy/n', '/pool/tmp/v.copy/copy.json'));
    assert.equal(lostByPowerCut(copy(), rules).length, 1);
    assert.deepEqual(lostByPowerCut(copy(sync('/pool/tmp/v.copy/data')), rules), []);
  });

  test('what is put into the trash to be kept is durable before', () => {
    const kept = (...between: Told[]) =>
      story(
        make('/pool/tmp/v.1'),
        open('/pool/tmp/v.1/data'),
        write('/pool/tmp/v.1/data'),
        open('/pool/tmp/v.1/deleted.json'),
        ...between,
        rename('/pool/tmp/v.1', '/pool/trash/v.1'),
      );
    assert.equal(lostByPowerCut(kept(), rules).length, 2);
    assert.deepEqual(lostByPowerCut(kept(sync('/pool/tmp/v.1/data'), sync('/pool/tmp/v.1')), rules), []);
  });

  test('room that is held, and what is not in the pool, is nobody’s loss', () => {
    const paths = ['/pool/ballast', '/pool/health', '/pool/spares/1', '/pool/tmp/v.1/data', '/elsewhere'];
    assert.deepEqual(lostByPowerCut(story(...paths.flatMap((path) => [open(path), write(path)]), answer), rules), []);
  });
});

/** The same on a filesystem with one journal. */
function journaledCreation(leftOut?: string): DiskEvent[] {
  const steps: readonly (readonly [string, Told])[] = [
    ['directory', make('/pool/tmp/v.1')],
    ['data', open('/pool/tmp/v.1/data')],
    ['write', write('/pool/tmp/v.1/data')],
    ['write-out of the image', writeOut('/pool/tmp/v.1/data')],
    ['record', open('/pool/tmp/v.1/volume.json')],
    ['record', write('/pool/tmp/v.1/volume.json')],
    ['write-out of the record', writeOut('/pool/tmp/v.1/volume.json')],
    ['commit', rename('/pool/tmp/v.1', '/pool/volumes/v')],
    ['sync of volumes', sync('/pool/volumes')],
  ];
  return story(...steps.filter(([name]) => name !== leftOut).map(([, step]) => step), answer);
}

describe('the same where the filesystem has one journal', () => {
  const lost = (events: readonly DiskEvent[]) => lostByPowerCut(events, rules, true);

  test('one sync makes all durable that was written out before; elsewhere it does not', () => {
    assert.deepEqual(lost(journaledCreation()), []);
    assert.deepEqual(lost(creation()), []);
    assert.equal(lostByPowerCut(journaledCreation(), rules).length, 3);
  });

  for (const leftOut of ['write-out of the image', 'write-out of the record', 'sync of volumes']) {
    test(`without ${leftOut}`, () => assert.notDeepEqual(lost(journaledCreation(leftOut)), []));
  }

  test('a write-out that began before the write had returned does not count, nor one after the rename', () => {
    const at = (start: number, end: number, event: Told): DiskEvent => ({ ...event, start, end });
    const [draft, place] = ['/pool/groups/g.json.new', '/pool/groups/g.json'];
    const last = [at(20, 21, sync('/pool/groups')), at(22, 22, answer)];
    const overlapping = [at(1, 4, write(draft)), at(3, 6, writeOut(draft)), at(8, 9, rename(draft, place)), ...last];
    assert.equal(lost(overlapping).length, 1);
    const late = [at(1, 2, write(draft)), at(8, 9, rename(draft, place)), at(10, 11, writeOut(place)), ...last];
    assert.equal(lost(late).length, 1);
    const right = [at(1, 2, write(draft)), at(3, 6, writeOut(draft)), at(8, 9, rename(draft, place)), ...last];
    assert.deepEqual(lost(right), []);
  });

  test('a sync of another directory commits what came before that one’s own last change', () => {
    const [here, there] = ['/pool/groups', '/pool/snapshots'];
    assert.deepEqual(lost(story(make(`${here}/g`), make(`${there}/s`), sync(there), answer)), []);
    assert.equal(lost(story(make(`${there}/s`), make(`${here}/g`), sync(there), answer)).length, 1);
  });

  test('content that is written over in place comes after what must be durable before', () => {
    const [mark, data] = ['/pool/trash/v.1/deleted.json', '/pool/trash/v.1/data'];
    assert.deepEqual(lost(story(remove(mark), remove(data))), []);
    assert.equal(lost(story(remove(mark), write(data))).length, 1);
  });
});

describe('a trace of strace', () => {
  const read = (...lines: string[]) => diskEvents(parseTrace(lines.join('\n')));

  test('calls, also those that others interrupt, become events in their order', () => {
    const events = read(
      '7 1.000001 mkdir("/pool/tmp/v.1", 0700) = 0',
      '7 1.000002 openat(AT_FDCWD</>, "/pool/tmp/v.1/r", O_WRONLY|O_CREAT|O_EXCL|O_SYNC|O_CLOEXEC, 0600) = 5</pool/tmp/v.1/r>',
      '8 1.000003 fsync(6</pool/volumes> <unfinished ...>',
      '7 1.000004 write(5</pool/tmp/v.1/r>, ""..., 35) = 35',
      '8 1.000005 <... fsync resumed>) = 0',
      '7 1.000006 rename("/pool/tmp/v.1", "/pool/volumes/v") = -1 ENOSPC (No space left on device)',
      '7 1.000007 unlinkat(AT_FDCWD</>, "/pool/tmp/v.1/r", 0) = 0',
      '7 1.000008 ioctl(5</pool/a>, BTRFS_IOC_CLONE or FICLONE, 4</pool/b>) = 0',
      '7 1.000009 fallocate(5</pool/a>, FALLOC_FL_KEEP_SIZE|FALLOC_FL_PUNCH_HOLE, 0, 4096) = 0',
      '7 1.000010 sync_file_range(5</pool/a>, 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE|SYNC_FILE_RANGE_WRITE|SYNC_FILE_RANGE_WAIT_AFTER) = 0',
      '7 1.000011 +++ exited with 0 +++',
    );
    assert.deepEqual(events, [
      { start: 1, end: 1, kind: 'make', path: '/pool/tmp/v.1' },
      { start: 2, end: 2, kind: 'open', path: '/pool/tmp/v.1/r', isCreated: true },
      { start: 4, end: 4, kind: 'write', path: '/pool/tmp/v.1/r', isDurable: true },
      { start: 3, end: 5, kind: 'sync', path: '/pool/volumes' },
      { start: 7, end: 7, kind: 'remove', path: '/pool/tmp/v.1/r' },
      { start: 8, end: 8, kind: 'write', path: '/pool/a', isDurable: false },
      { start: 10, end: 10, kind: 'write-out', path: '/pool/a' },
    ]);
  });
});
