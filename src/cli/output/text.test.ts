import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { tableLines } from './table.ts';
import { age, columnsOf, printable, shortened, wrapped } from './text.ts';

describe('text for terminals', () => {
  test('what a terminal would obey is shown instead', () => {
    assert.equal(printable('a\u001b[31mb\nc\td'), 'a\\u001b[31mb\\u000ac\\u0009d');
    assert.equal(printable('abc\u202edef'), 'abc\\u202edef');
    assert.equal(printable('grün 日本 🚀'), 'grün 日本 🚀');
  });

  test('wide characters take two columns, marks on letters none', () => {
    assert.equal(columnsOf('abc'), 3);
    assert.equal(columnsOf('日本'), 4);
    assert.equal(columnsOf('e\u0301'), 1);
    assert.equal(columnsOf('👩‍🚀'), 2);
  });

  test('a long text is cut at a character, with a mark', () => {
    assert.equal(shortened('abcdef', 6), 'abcdef');
    assert.equal(shortened('abcdefg', 6), 'abcde…');
    assert.equal(columnsOf(shortened('日本語日本語', 6)), 5);
  });

  test('ages are one number', () => {
    const now = new Date('2026-01-10T12:00:00Z');
    const ages = { '12:00:00': '0s', '11:59:01': '59s', '11:01:00': '59m', '09:30:00': '2h' };
    for (const [time, expected] of Object.entries(ages)) assert.equal(age(`2026-01-10T${time}Z`, now), expected);
    assert.equal(age('2026-01-01T12:00:00Z', now), '9d');
    assert.equal(age('2026-01-10T12:00:05Z', now), '0s', 'a clock that was set back');
  });
});

describe('tables', () => {
  test('columns are as wide as their widest cell', () => {
    const columns = [{ title: 'NAME' }, { title: 'SIZE', align: 'right' }, { title: 'X' }] as const;
    assert.deepEqual(
      tableLines(columns, [
        ['日本', '1Gi', 'y'],
        ['a', '100Mi', ''],
      ]),
      ['NAME   SIZE  X', '日本    1Gi  y', 'a     100Mi'],
    );
  });

  test('without rows there are the titles', () => {
    assert.deepEqual(tableLines([{ title: 'A' }, { title: 'B' }], []), ['A  B']);
  });
});

describe('a table in a terminal', () => {
  const columns = [
    { title: 'ID' },
    { title: 'NAME', flexible: true },
    { title: 'KIND', extra: 2 },
    { title: 'AGE', align: 'right', extra: 1 },
  ] as const;
  const rows = [['vol-1', 'a-claim-with-a-long-name', 'image', '5d']];

  for (const [width, expected] of [
    [undefined, ['ID     NAME                      KIND   AGE', 'vol-1  a-claim-with-a-long-name  image   5d']],
    [43, ['ID     NAME                      KIND   AGE', 'vol-1  a-claim-with-a-long-name  image   5d']],
    [42, ['ID     NAME                      KIND', 'vol-1  a-claim-with-a-long-name  image']],
    [37, ['ID     NAME', 'vol-1  a-claim-with-a-long-name']],
    [24, ['ID     NAME', 'vol-1  a-claim-with-a-l…']],
    // Less of a name says too little.
    [10, ['ID     NAME', 'vol-1  a-claim-wit…']],
  ] as const) {
    test(`of ${width ?? 'no'} columns`, () => assert.deepEqual(tableLines(columns, rows, width), expected));
  }

  const disks = [{ title: 'DISK' }, { title: 'BUS', extra: 1 }, { title: 'WHY', wraps: true }] as const;
  const why = 'it is mounted at /srv; it has a partition table of another program';
  for (const [width, expected] of [
    [undefined, ['DISK  BUS   WHY', `sda   nvme  ${why}`]],
    [78, ['DISK  BUS   WHY', `sda   nvme  ${why}`]],
    [
      60,
      [
        'DISK  BUS   WHY',
        'sda   nvme  it is mounted at /srv; it has a partition table',
        '            of another program',
      ],
    ],
    [50, ['DISK  WHY', 'sda   it is mounted at /srv; it has a partition', '      table of another program']],
  ] as const) {
    test(`of ${width ?? 'no'} columns with a sentence`, () =>
      assert.deepEqual(tableLines(disks, [['sda', 'nvme', why]], width), expected));
  }

  test('a text is broken between words', () => {
    assert.deepEqual(wrapped('one two three', 7), ['one two', 'three']);
    assert.deepEqual(wrapped('a /dev/disk/by-id/very-long b', 8), ['a', '/dev/disk/by-id/very-long', 'b']);
    assert.deepEqual(wrapped('', 8), ['']);
    assert.deepEqual(wrapped('as it is', Infinity), ['as it is']);
  });
});
