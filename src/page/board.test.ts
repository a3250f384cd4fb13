import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Board } from './board.ts';
import { boardLists, type Items, itemsOf } from './messages.ts';

function since(board: Board, version: number, pieceBytes = 1 << 20) {
  return [...board.since(version, boardLists, pieceBytes)].map((text) => JSON.parse(text));
}

function messages(board: Board, version: number): Items[] {
  return since(board, version).filter(({ kind }) => kind === 'items');
}

/** The messages as the page reads them. */
function items(board: Board, version: number) {
  return messages(board, version).map((message) => ({
    list: message.list,
    put: [...itemsOf(message)],
    gone: message.gone,
  }));
}

describe('a board', () => {
  test('sends everything at first, and then what has changed', () => {
    const board = new Board();
    board.replace('volumes', 'a', [
      ['a/1', { id: '1' }],
      ['a/2', { id: '2' }],
    ]);
    board.replace('volumes', 'b', [['b/1', { id: '1' }]]);
    assert.deepEqual(items(board, 0), [
      {
        list: 'volumes',
        put: [
          ['a/1', { id: '1' }],
          ['a/2', { id: '2' }],
          ['b/1', { id: '1' }],
        ],
        gone: [],
      },
    ]);
    const { version } = board;
    board.replace('volumes', 'a', [['a/2', { id: '2', used: 1 }]]);
    assert.deepEqual(items(board, version), [{ list: 'volumes', put: [['a/2', { id: '2', used: 1 }]], gone: ['a/1'] }]);
    board.drop('b');
    assert.deepEqual(items(board, version).at(0)?.gone, ['a/1', 'b/1']);
    assert.deepEqual(items(board, board.version), []);
  });

  test('sends the names of properties once for all items that have the same ones', () => {
    const board = new Board();
    board.replace('volumes', 'a', [
      ['a/1', { id: '1', used: 5 }],
      ['a/2', { id: '2', used: undefined }],
      ['a/3', { id: '3', used: 7 }],
      ['a/4', {}],
    ]);
    assert.deepEqual(messages(board, 0)[0]?.put, [
      {
        names: ['id', 'used'],
        rows: [
          ['a/1', '1', 5],
          ['a/3', '3', 7],
        ],
      },
      { names: ['id'], rows: [['a/2', '2']] },
      { names: [], rows: [['a/4']] },
    ]);
    assert.deepEqual(items(board, 0)[0]?.put.at(-1), ['a/4', {}]);
    const { version } = board;
    board.replace('volumes', 'a', [['a/1', { id: '1', size: 5 }]]);
    assert.deepEqual(items(board, version)[0]?.put, [['a/1', { id: '1', size: 5 }]]);
  });

  test('an answer that is the same changes nothing, and wakes nobody', () => {
    const board = new Board();
    board.replace('pools', 'a', [['a/p', { name: 'p' }]]);
    board.lacks({ waiting: 0, problems: [], missing: [] });
    const { version } = board;
    let wakes = 0;
    board.onChange(() => wakes++);
    board.replace('pools', 'a', [['a/p', { name: 'p' }]]);
    board.lacks({ waiting: 0, problems: [], missing: [] });
    assert.deepEqual([board.version, wakes], [version, 0]);
    board.lacks({ waiting: 0, problems: [], missing: [{ node: 'a', reason: 'away', message: 'it is away' }] });
    assert.equal(wakes, 1);
    assert.deepEqual(since(board, version).at(-1)?.missing[0].node, 'a');
  });

  test('large lists come in pieces, and no item twice', () => {
    const board = new Board();
    board.replace(
      'volumes',
      'a',
      Array.from({ length: 1000 }, (_, index) => [`a/${index}`, { id: `${index}`, text: 'x'.repeat(100) }] as const),
    );
    const pieces = [...board.since(0, boardLists, 4096)].filter((text) => text.includes('"items"'));
    assert.ok(pieces.length > 20 && pieces.every(({ length }) => length < 8192));
    const keys = pieces.flatMap((text) => [...itemsOf(JSON.parse(text) as Items)].map(([key]) => key));
    assert.deepEqual([keys.length, new Set(keys).size], [1000, 1000]);
  });

  test('holds at most 32 MiB, and a stream that has missed too many removals begins again', () => {
    const board = new Board();
    const large = { text: 'x'.repeat(1 << 20) };
    const many = (count: number) => Array.from({ length: count }, (_, index) => [`a/${index}`, large] as const);
    assert.equal(board.replace('volumes', 'a', many(40)), false);
    assert.ok(board.bytes <= 32 << 20);
    assert.equal(board.replace('volumes', 'a', many(3)), true);
    assert.ok(board.bytes < 4 << 20);
    board.drop('a');
    assert.equal(board.bytes, 0);
    const { version } = board;
    for (let round = 0; round < 60; round++) {
      board.replace(
        'trash',
        'a',
        Array.from({ length: 1000 }, (_, index) => [`${round}/${index}`, {}] as const),
      );
    }
    assert.ok(!board.knows(version) && board.knows(board.version) && board.knows(0));
  });
});
