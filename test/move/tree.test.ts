import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import {
  appendFileSync,
  chmodSync,
  closeSync,
  linkSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { describe, test } from 'node:test';
import { openReadOnly } from '../../src/kernel/call/descriptor.ts';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { treeName } from '../../src/kernel/file/entry.ts';
import type { Piece } from '../../src/move/copy.ts';
import { packTree } from '../../src/move/tree/pack.ts';
import { OtherTree, placeIn, progressOut, storedProgress, type TreeProgress } from '../../src/move/tree/progress.ts';
import { encodeRecord, type TreeRecord } from '../../src/move/tree/records.ts';
import { seeEntry } from '../../src/move/tree/see.ts';
import { unpackTree } from '../../src/move/tree/unpack.ts';
import { openDescriptors } from '../kernel/fixture.ts';
import { mountNew } from '../kernel/mounting.ts';
import { Scratch } from '../support/scratch.ts';
import { describedTree, makeWildTree, requireTree } from './wild-tree.ts';

const queue = new DiskQueue('test', 4);
const never = new AbortController();

async function* packed(path: string, from?: TreeProgress): AsyncGenerator<Piece, void, void> {
  await using root = await openReadOnly(queue, path);
  yield* packTree({ queue, root, from: from && placeIn(from), signal: never.signal });
}

interface Unpacked {
  readonly limitBytes?: bigint;
  readonly from?: TreeProgress | undefined;
  readonly noted?: (progress: TreeProgress) => void;
  readonly signal?: AbortSignal;
}

async function unpack(
  scratch: Scratch,
  name: string,
  pieces: AsyncIterable<Piece>,
  { from, limitBytes = 1n << 40n, noted = () => undefined, signal = never.signal }: Unpacked = {},
): Promise<string> {
  const to = scratch.join(name);
  const beside = join(dirname(to), `links of ${basename(to)}`);
  for (const path of [to, beside]) mkdirSync(path, { recursive: from !== undefined });
  await using root = await openReadOnly(queue, to);
  await using links = await openReadOnly(queue, beside);
  const pace = { took: async () => undefined };
  const work = {
    pieces,
    pace,
    signal,
    ...{ moved: () => undefined, passed: () => undefined },
    noted: async (progress: TreeProgress) => noted(progress),
  };
  await unpackTree({ queue, root, links, limitBytes, from, ...work });
  rmSync(beside, { recursive: true });
  return to;
}

type SentPiece = readonly TreeRecord[] | Buffer;

/** Pieces as another node may send them. */
async function* sent(...pieces: readonly SentPiece[]): AsyncGenerator<Piece, void, void> {
  let offsetBytes = 0n;
  for (const piece of pieces) {
    const bytes = Buffer.from(Buffer.isBuffer(piece) ? piece : Buffer.concat(piece.map(encodeRecord)));
    const digest = createHash('sha256').update(bytes).digest();
    yield { offsetBytes, lengthBytes: bytes.length, data: { bytes, digest, free: () => undefined } };
    offsetBytes += BigInt(bytes.length);
  }
}

const name = (text: string) => Buffer.from(text, 'latin1');
const time = { seconds: 0n, nanoseconds: 0 };
const done: TreeRecord = { type: 'done', mode: 0o755, accessed: time, modified: time };
const end: TreeRecord = { type: 'end' };
const file = (text: string, sizeBytes = 4n): TreeRecord => ({ type: 'file', name: name(text), link: 0, sizeBytes });
const several = (text: string): TreeRecord => ({ type: 'file', name: name(text), link: 1, sizeBytes: 0n });
const data = (offsetBytes: bigint, lengthBytes: number): TreeRecord => ({ type: 'data', offsetBytes, lengthBytes });

describe('a tree that moves', () => {
  test('has the same entries at the other end, however wild they are', async () => {
    using scratch = new Scratch('tree');
    const from = scratch.join('from');
    mkdirSync(from);
    makeWildTree(from);
    const before = describedTree(from);
    const open = await openDescriptors();
    const to = await unpack(scratch, 'to', packed(from));
    requireTree(to, before);
    requireTree(from, before);
    assert.deepEqual([...(await openDescriptors()).keys()], [...open.keys()]);
  });

  const crafted: Record<string, readonly SentPiece[]> = {
    'a name that leads upwards': [[file('..'), done, done, end]],
    'a name that is the directory': [[{ type: 'directory', name: name('.') }, done, done, end]],
    'a name with a slash': [[file('../outside'), done, done, end]],
    'an absolute name': [[file('/etc/holdfast'), done, done, end]],
    'a name with a NUL': [[file('a\0b'), done, done, end]],
    'no name': [[file(''), done, done, end]],
    'a link to what has not come': [[{ type: 'link', name: name('x'), link: 7 }, done, end]],
    'a count of the names of what has not come': [[{ type: 'names', link: 7, names: 1 }, done, end]],
    'fewer names of an entry than are counted': [[several('x'), done, { type: 'names', link: 1, names: 2 }, done, end]],
    'more names of an entry than are counted': [
      [several('x'), done, { type: 'link', link: 1, name: name('y') }, { type: 'names', link: 1, names: 1 }, done, end],
    ],
    'an entry below a symlink': [
      [{ type: 'symlink', name: name('out'), link: 0, target: name('..') }, done, file('out/below'), done, done, end],
    ],
    'an entry in place of a symlink': [
      [{ type: 'symlink', name: name('out'), link: 0, target: name('../outside') }, done, file('out'), done, done, end],
    ],
    'a directory in place of a symlink': [
      [
        ...([{ type: 'symlink', name: name('out'), link: 0, target: name('..') }, done] as const),
        ...([{ type: 'directory', name: name('out') }, file('below'), done, done, done, end] as const),
      ],
    ],
    'an entry of an unknown type': [
      [{ type: 'special', name: name('x'), link: 0, fileType: 0o40000, major: 0, minor: 0 }, done, done, end],
    ],
    'an attribute of another namespace': [
      [{ type: 'attribute', name: name('system.data'), value: name('') }, done, end],
    ],
    'data behind the end of its file': [[file('x'), data(0n, 4096)], Buffer.alloc(4096), [done, done, end]],
    'data before other data': [
      [file('x', 8192n), data(4096n, 4096)],
      Buffer.alloc(4096),
      [data(0n, 4096)],
      Buffer.alloc(4096),
      [done, done, end],
    ],
    'data of no file': [[data(0n, 1)], name('a'), [done, end]],
    'shorter data than it says': [[file('x'), data(0n, 4)], name('abc'), [done, done, end]],
    'records in place of data': [[file('x'), data(0n, 4), done, done, end]],
    'content of no file': [[{ type: 'content', bytes: name('abcd') }, done, end]],
    'shorter content than its file': [[file('x', 8n), { type: 'content', bytes: name('abcd') }, done, done, end]],
    'content that comes twice': [
      [file('x'), { type: 'content', bytes: name('abcd') }, { type: 'content', bytes: name('abcd') }, done, done, end],
    ],
    'content of a symlink': [
      [
        { type: 'symlink', name: name('x'), link: 0, target: name('y') },
        { type: 'content', bytes: name('abcd') },
        ...([done, done, end] as const),
      ],
    ],
    'longer content than a record has': [
      [file('x', 65537n), { type: 'content', bytes: Buffer.alloc(65537) }, done, done, end],
    ],
    'an entry that has no end': [[file('x'), file('y'), done, done, end]],
    'more ends than directories': [[done, done, end]],
    'an entry behind its end': [[done, end], [file('x')]],
    'no end': [[file('x'), done, done]],
    'an end in a directory': [[{ type: 'directory', name: name('x') }, done, end]],
    nothing: [],
    'a part of a record': [encodeRecord(done).subarray(0, 10)],
    'an unknown record': [Buffer.from([99, 0, 0, 0, 0])],
  };
  for (const [what, pieces] of Object.entries(crafted)) {
    test(`with ${what} is refused, and nothing is made outside of its directory`, async () => {
      using scratch = new Scratch('tree');
      const before = readdirSync('/etc');
      await assert.rejects(unpack(scratch, 'to', sent(...pieces)), (error) => {
        assert.match(`${error}`, /^DataLoss: The tree that was sent cannot be read|EEXIST/);
        return true;
      });
      assert.deepEqual(readdirSync(scratch.path).sort(), ['links of to', 'to']);
      assert.deepEqual(readdirSync('/etc'), before);
    });
  }

  test('whose bytes change on their way, or on the disk, is refused', async () => {
    using scratch = new Scratch('tree');
    const from = scratch.join('from');
    mkdirSync(from);
    writeFileSync(join(from, 'file'), randomBytes(3 << 20));
    // The name of the file, its data, and its group: each may be so, and nothing but a digest tells.
    for (const [broken, at] of [
      [0, 24],
      [1, 100],
      [6, 20],
    ] as const) {
      async function* flipped(): AsyncGenerator<Piece, void, void> {
        let index = 0;
        for await (const piece of packed(from)) {
          const data = piece.data ?? assert.fail('a hole');
          const bytes = Buffer.from(data.bytes);
          if (index++ === broken) bytes[at] = (bytes[at] ?? 0) ^ 1;
          yield { ...piece, data: { ...data, bytes } };
        }
        assert.equal(index, 7);
      }
      await assert.rejects(unpack(scratch, `to ${broken}`, flipped()), { name: 'DataLoss' });
    }
  });

  test('whose data is no whole blocks is refused: each piece of it takes memory', async () => {
    using scratch = new Scratch('tree');
    const pieces = [[data(0n, 1)], [data(0n, 4095)], [data(1n, 4095)], [data(4096n, 4095)]];
    for (const [index, piece] of pieces.entries()) {
      await assert.rejects(
        unpack(scratch, `to ${index}`, sent([file('x', 9000n), ...piece])),
        /DataLoss: .* are no whole blocks/,
      );
    }
  });

  test('with what the filesystem refuses is refused, and leaves nothing open', async () => {
    using scratch = new Scratch('tree');
    const before = await openDescriptors();
    const refused: TreeRecord = { type: 'attribute', name: name('security.capability'), value: name('none') };
    const [link, entry] = [{ type: 'symlink', name: name('l'), link: 0, target: name('t') }, file('x', 0n)] as const;
    const user: TreeRecord = { type: 'attribute', name: name('user.of a symlink'), value: name('none') };
    await assert.rejects(unpack(scratch, 'one', sent([entry, refused, done, done, end])), { code: 'EINVAL' });
    await assert.rejects(unpack(scratch, 'two', sent([link, user, done, done, end])), { code: 'EPERM' });
    await assert.rejects(
      unpack(scratch, 'three', sent([file('x'), data(0n, 4)], name('abcd'), [refused, done, done, end])),
      {
        code: 'EINVAL',
      },
    );
    assert.deepEqual([...(await openDescriptors()).keys()], [...before.keys()]);
  });

  test('with more data than its size allows is refused', async () => {
    using scratch = new Scratch('tree');
    const block = Buffer.alloc(4096, 1);
    const pieces = [
      [file('x', 8196n), data(0n, 4096)],
      block,
      [data(8192n, 4)],
      name('last'),
      [done, done, end],
    ] as const;
    const enough = 512n + 1n + 8192n;
    await assert.rejects(
      unpack(scratch, 'less', sent(...pieces), { limitBytes: enough - 1n }),
      /The volume has more in it than its size/,
    );
    const path = await unpack(scratch, 'enough', sent(...pieces), { limitBytes: enough });
    assert.deepEqual(readFileSync(join(path, 'x')), Buffer.concat([block, Buffer.alloc(4096), name('last')]));
  });

  test('with more entries than its size allows is refused', async () => {
    using scratch = new Scratch('tree');
    const attribute = { type: 'attribute', name: name('user.long'), value: Buffer.alloc(3000) } as const;
    const entries: Record<string, readonly TreeRecord[]> = {
      file: [file('x', 0n), done],
      directory: [{ type: 'directory', name: name('x') }, done],
      symlink: [{ type: 'symlink', name: name('x'), link: 0, target: name('y') }, done],
      special: [{ type: 'special', name: name('x'), link: 0, fileType: 0o10000, major: 0, minor: 0 }, done],
      attribute: [attribute],
    };
    for (const [what, records] of Object.entries(entries)) {
      await assert.rejects(unpack(scratch, `no ${what}`, sent([...records, done, end]), { limitBytes: 500n }), {
        name: 'ResourceExhausted',
      });
      assert.deepEqual(readdirSync(scratch.join(`no ${what}`)), []);
    }
    await unpack(scratch, 'all', sent([file('x', 0n), done, attribute, done, end]), { limitBytes: 4000n });
  });

  test('has attributes of many megabytes, of which a few are in memory at a time', async () => {
    using scratch = new Scratch('tree');
    const disk = await mountNew(scratch.path, 'xfs');
    const script = [
      'import os, sys',
      'os.chdir(sys.argv[1]); os.mkdir("from"); os.mkdir("from/dir"); os.symlink("nowhere", "from/link")',
      'open("from/empty", "w").close(); open("from/small", "w").write("content"); open("from/large", "wb").write(os.urandom(300000))',
      'for at, path in enumerate(["dir", "link", "empty", "small", "large"]):',
      '  for n in range(40): os.setxattr("from/" + path, f"trusted.{n}", bytes([at, n]) * 30000, follow_symlinks=False)',
    ].join('\n');
    execFileSync('python3', ['-c', script, disk]);
    const from = join(disk, 'from');
    await using root = await openReadOnly(queue, from);
    for (const entry of ['link', 'small']) {
      assert.equal((await seeEntry(queue, root, treeName(Buffer.from(entry)), true)).attributes, undefined);
    }
    requireTree(await unpack(scratch, 'mnt/to', packed(from)), describedTree(from));
  });

  test('has no ACL of the directory that it comes into', async () => {
    using scratch = new Scratch('tree');
    mkdirSync(scratch.join('from'));
    makeWildTree(scratch.join('from'), 2);
    const before = describedTree(scratch.join('from'));
    const acl = '0200000001000700ffffffff02000700e803000004000500ffffffff10000700ffffffff20000500ffffffff';
    const script = "import os, sys; os.setxattr(sys.argv[1], 'system.posix_acl_default', bytes.fromhex(sys.argv[2]))";
    execFileSync('python3', ['-c', script, scratch.path, acl]);
    requireTree(await unpack(scratch, 'to', packed(scratch.join('from'))), before);
  });

  test('whose entries cannot be looked at has its queue hear of that', async () => {
    using scratch = new Scratch('tree');
    mkdirSync(scratch.join('from', 'inside'), { recursive: true });
    execFileSync('mount', ['-t', 'tmpfs', 'none', scratch.join('from', 'inside')]);
    const failing = new DiskQueue('failing', 2);
    const failures: unknown[] = [];
    failing.onFailure = (error) => failures.push(error);
    await using root = await openReadOnly(failing, scratch.join('from'));
    const all = async () => {
      for await (const _ of packTree({ queue: failing, root, from: undefined, signal: never.signal }));
    };
    await assert.rejects(all(), /something is mounted at/);
    assert.equal(failures.length, 1);
  });

  const changes: Record<string, (from: string) => void> = {
    'with a file that is written to': (from) => {
      const file = openSync(join(from, 'd/large'), 'r+');
      writeSync(file, 'x', 0);
      closeSync(file);
    },
    'with a file that becomes shorter': (from) => truncateSync(join(from, 'd/large'), 100),
    'with a file that becomes longer': (from) => appendFileSync(join(from, 'd/large'), 'x'),
    'with a file that gets another mode': (from) => chmodSync(join(from, 'd/large'), 0o600),
    'with a directory that gets an entry': (from) => writeFileSync(join(from, 'd/later'), ''),
    'with a directory that has lost one': (from) => unlinkSync(join(from, 'first')),
  };
  for (const [what, change] of Object.entries(changes)) {
    test(`${what} while it is read is refused, and can be copied again`, async () => {
      using scratch = new Scratch('tree');
      const from = scratch.join('from');
      mkdirSync(join(from, 'd'), { recursive: true });
      writeFileSync(join(from, 'first'), 'x');
      writeFileSync(join(from, 'd/large'), randomBytes(24 << 20));
      async function* changing(): AsyncGenerator<Piece, void, void> {
        let count = 0;
        for await (const piece of packed(from)) {
          if (++count === 4) change(from);
          yield piece;
        }
      }
      await assert.rejects(
        unpack(scratch, 'to', changing()),
        /Unavailable: .* has changed while the volume was copied/,
      );
      requireTree(await unpack(scratch, 'again', packed(from)), describedTree(from));
    });
  }

  describe('whose copy was cut short', () => {
    const large = ['large', 'second'];

    /** A directory with others, and two files that are longer than places are apart: in whatever order they come. */
    function makeTree(path: string): void {
      const top = join(path, 'top');
      for (let at = 0; at < 12; at++) {
        const inside = join(top, `directory ${at}`);
        mkdirSync(join(inside, 'empty'), { recursive: true });
        for (let file = 0; file < 60; file++) writeFileSync(join(inside, `${file}`), `${at} ${file}`.repeat(file));
        makeReserved(join(inside, 'reserved'));
        linkSync(join(inside, '7'), join(top, `7 of ${at}`));
      }
      for (let at = 0; at < 50; at++) writeFileSync(join(top, `small ${at}`), `${at}`);
      mkdirSync(join(top, 'wild'));
      makeWildTree(join(top, 'wild'), 4);
      for (const name of large) {
        writeFileSync(join(top, name), randomBytes(20 << 20));
        truncateSync(join(top, name), 21 << 20);
      }
      // A look at the tree changes no time of it then.
      setAccessed(path, '2031-01-01');
    }

    /** A file with blocks that were never written: a program that reads them has zeros of them in the page cache, which look like data. */
    function makeReserved(path: string): void {
      writeFileSync(path, 'written');
      execFileSync('fallocate', ['--length', `${256 << 10}`, path]);
    }

    /** A look at an entry changes such a time of access (mount(8), relatime). */
    const olderThanADay = '2001-01-01';

    /** All of it had its last access on that day. */
    function setAccessed(path: string, day: string): void {
      execFileSync('find', [path, '-exec', 'touch', '-h', '-a', '-d', day, '{}', '+']);
    }

    /** A copy whose pieces end behind a number of bytes. @returns how far it has come */
    async function cutCopy(scratch: Scratch, pieces: AsyncIterable<Piece>, untilBytes: bigint, from?: TreeProgress) {
      let progress = from;
      async function* cut(): AsyncGenerator<Piece, void, void> {
        for await (const piece of pieces) {
          if (piece.offsetBytes >= untilBytes) return;
          yield piece;
        }
      }
      const noted = (now: TreeProgress) => {
        progress = progressIn(now);
      };
      await assert.rejects(unpack(scratch, 'to', cut(), { from, noted }), /it is not whole/);
      return progress;
    }

    /** As it is after a restart. */
    function progressIn(progress: TreeProgress): TreeProgress {
      return storedProgress.parse(JSON.parse(JSON.stringify(progressOut(progress))));
    }

    test('goes on behind what was compared, however often: the same entries, and no data is sent twice', async () => {
      using scratch = new Scratch('tree');
      const from = scratch.join('from');
      makeTree(from);
      const before = describedTree(from);
      const open = await openDescriptors();
      const places: bigint[] = [];
      let progress: TreeProgress | undefined;
      for (let untilBytes = 20n << 20n; untilBytes < 40n << 20n; untilBytes += 6n << 20n) {
        progress = await cutCopy(scratch, packed(from, progress), untilBytes, progress);
        places.push(progress?.atBytes ?? 0n);
      }
      const distinct = new Set(places);
      assert.ok(distinct.size > 1, `${places}`);
      let [sentBytes, endBytes] = [0n, 0n];
      async function* rest(): AsyncGenerator<Piece, void, void> {
        for await (const piece of packed(from, progress)) {
          endBytes = piece.offsetBytes + BigInt(piece.lengthBytes);
          if (piece.data !== undefined) sentBytes += BigInt(piece.lengthBytes);
          yield piece;
        }
      }
      requireTree(await unpack(scratch, 'to', rest(), { from: progress }), before);
      assert.equal(sentBytes, endBytes - (progress?.atBytes ?? 0n));
      assert.deepEqual([...(await openDescriptors()).keys()], [...open.keys()]);
    });

    test('leaves nothing of what had come behind that place', async () => {
      using scratch = new Scratch('tree');
      const from = scratch.join('from');
      makeTree(from);
      const before = describedTree(from);
      const progress = await cutCopy(scratch, packed(from), 24n << 20n);
      const to = scratch.join('to');
      // As if more of it had come than was noted: ACLs pass to new entries.
      const acl = '0200000001000700ffffffff02000700e803000004000500ffffffff10000700ffffffff20000500ffffffff';
      const script = "import os, sys; os.setxattr(sys.argv[1], 'system.posix_acl_default', bytes.fromhex(sys.argv[2]))";
      for (const level of progress?.levels ?? [])
        execFileSync('python3', ['-c', script, join(to, `${level.name}`), acl]);
      for (const name of readdirSync(join(from, 'top'))) {
        if (!readdirSync(join(to, 'top')).includes(name))
          mkdirSync(join(to, 'top', name, 'inside'), { recursive: true });
      }
      requireTree(from, before);
      requireTree(await unpack(scratch, 'to', packed(from, progress), { from: progress }), before);
    });

    test('goes on also if the tree was read meanwhile, which changes times of access', async () => {
      using scratch = new Scratch('tree');
      const from = scratch.join('from');
      makeTree(from);
      setAccessed(from, olderThanADay);
      const progress = await cutCopy(scratch, packed(from), 38n << 20n);
      assert.notEqual(progress, undefined);
      const times = () => execFileSync('find', [from, '-maxdepth', '2', '-printf', '%p %A@\\n'], { encoding: 'utf8' });
      const before = times();
      execFileSync('sh', ['-c', 'find directory* -type f -exec cat {} + >/dev/null; ls . directory*'], {
        cwd: join(from, 'top'),
      });
      assert.notEqual(times(), before);
      await unpack(scratch, 'to', packed(from, progress), { from: progress });
    });

    test('is passed with signs of that, and short records do not wait for others', async () => {
      using scratch = new Scratch('tree');
      const from = scratch.join('from');
      mkdirSync(from);
      writeFileSync(join(from, 'file'), '');
      for (let at = 0; at < 10_000; at++) linkSync(join(from, 'file'), join(from, `${at}`));
      const piecesOf = async (progress: TreeProgress | undefined) => {
        const pieces: Piece[] = [];
        for await (const piece of packed(from, progress)) pieces.push(piece);
        return pieces;
      };
      assert.equal((await piecesOf(undefined)).length, 3);
      const progress = await cutCopy(scratch, packed(from), 1n);
      const passed = (await piecesOf(progress)).filter(({ data }) => data === undefined);
      assert.ok(passed.length > 10, `${passed.length}`);
      assert.equal(
        passed.reduce((sum, { lengthBytes }) => sum + lengthBytes, 0),
        4096,
      );
    });

    test('has all small files that came before a place', async () => {
      using scratch = new Scratch('tree');
      const small = [file('a'), { type: 'content', bytes: name('abcd') }, done] as const;
      const progress = await cutCopy(scratch, sent([...small, { type: 'place', digest: Buffer.alloc(32) }]), 1n);
      assert.equal(progress?.levels[0]?.entries, 1);
      assert.equal(readFileSync(scratch.join('to', 'a'), 'utf8'), 'abcd');
    });

    test('begins again if what waits for more names is gone', async () => {
      using scratch = new Scratch('tree');
      const first = [several('x'), done, { type: 'place', digest: Buffer.alloc(32) }] as const;
      const progress = await cutCopy(scratch, sent(first), 1n);
      rmSync(join(scratch.path, 'links of to', '1'));
      const fromBytes = progress?.atBytes ?? assert.fail('it has no place');
      async function* behind(): AsyncGenerator<Piece, void, void> {
        for await (const piece of sent([{ type: 'link', link: 1, name: name('y') }, done, end])) {
          yield { ...piece, offsetBytes: fromBytes + piece.offsetBytes };
        }
      }
      await assert.rejects(unpack(scratch, 'to', behind(), { from: progress }), OtherTree);
    });

    test('is cancelled while what was copied in vain is removed', async () => {
      using scratch = new Scratch('tree');
      const progress = await cutCopy(scratch, sent([{ type: 'place', digest: Buffer.alloc(32) }]), 1n);
      const fromBytes = progress?.atBytes ?? assert.fail('it has no place');
      const many = scratch.join('to', 'd');
      mkdirSync(many);
      for (let at = 0; at < 3000; at++) writeFileSync(join(many, `${at}`), '');
      const cancelled = new AbortController();
      async function* cancelling(): AsyncGenerator<Piece, void, void> {
        for await (const piece of sent([{ type: 'directory', name: name('d') }])) {
          setImmediate(() => cancelled.abort());
          yield { ...piece, offsetBytes: fromBytes };
        }
      }
      const work = { from: progress, signal: cancelled.signal };
      await assert.rejects(unpack(scratch, 'to', cancelling(), work), { name: 'AbortError' });
      assert.ok(readdirSync(many).length > 0, 'it was not waited for');
    });

    test('has the times of its directories', async () => {
      using scratch = new Scratch('tree');
      const from = scratch.join('from');
      makeTree(from);
      setAccessed(from, olderThanADay);
      const progress = await cutCopy(scratch, packed(from), 24n << 20n);
      const to = await unpack(scratch, 'to', packed(from, progress), { from: progress });
      for (const { name } of progress?.levels ?? []) {
        const [there, here] = [from, to].map((path) => statSync(join(path, `${name}`)));
        assert.equal(here?.atimeMs, there?.atimeMs, `${name}`);
      }
    });

    function write(path: string): void {
      const file = openSync(path, 'r+');
      writeSync(file, 'x', 0);
      closeSync(file);
    }

    /** @param part the file that has come in part; whole: one that has come before it */
    type Change = (trees: { from: string; to: string }, files: { part: string; whole: string }) => void;
    const others: Record<string, Change> = {
      'with an entry at the target that does not come again': ({ to }) => writeFileSync(join(to, 'more'), ''),
      'without a part of it at the target': ({ to }) => rmSync(to, { recursive: true }),
      'with less of a file at the target than was noted': ({ to }, { part }) => truncateSync(join(to, part), 1 << 20),
      'with a file that was changed before that place': ({ from }, { whole }) => write(join(from, whole)),
      'with a name that is gone before that place': ({ from }, { whole }) => unlinkSync(join(from, whole)),
      'with a file that was changed where it has been copied': ({ from }, { part }) => write(join(from, part)),
    };
    for (const [what, change] of Object.entries(others)) {
      test(`${what} begins again`, async () => {
        using scratch = new Scratch('tree');
        const from = scratch.join('from');
        makeTree(from);
        const progress = await cutCopy(scratch, packed(from), 38n << 20n);
        const part = progress?.file?.name.toString() ?? assert.fail('it is in no file');
        const whole = large.find((each) => each !== part) ?? assert.fail('it is in another one');
        const [there, here] = [join(from, 'top'), join(scratch.path, 'to', 'top')];
        change({ from: there, to: here }, { part, whole });
        await assert.rejects(unpack(scratch, 'to', packed(from, progress), { from: progress }), OtherTree);
      });
    }
  });

  /** Bytes that can be compressed to half of them. */
  const half = (blocks: number) =>
    Buffer.concat(Array.from({ length: blocks }, () => Buffer.concat([randomBytes(2048), Buffer.alloc(2048)])));
  const fills: Record<string, (from: string) => void> = {
    'one large file': (from) => writeFileSync(join(from, 'file'), half(2048)),
    'many small files': (from) => {
      for (let at = 0; at < 256; at++) writeFileSync(join(from, `${at}`), half(8));
    },
  };
  for (const [what, fill] of Object.entries(fills)) {
    test(`with ${what} is compared with the disk, also where direct reads are of the page cache`, async () => {
      using scratch = new Scratch('tree');
      const from = scratch.join('from');
      mkdirSync(from);
      fill(from);
      const [image, mountPoint] = [scratch.join('btrfs.img'), scratch.join('btrfs')];
      writeFileSync(image, '');
      truncateSync(image, 512 << 20);
      mkdirSync(mountPoint);
      execFileSync('mkfs.btrfs', ['-q', image]);
      execFileSync('mount', ['-o', 'loop,compress-force=zstd', image, mountPoint]);
      const device = execFileSync('findmnt', ['-no', 'SOURCE', mountPoint], { encoding: 'utf8' }).trim();
      const readBytes = () =>
        Number(
          readFileSync(`/sys/block/${basename(device)}/stat`, 'utf8')
            .trim()
            .split(/ +/)[2],
        ) * 512;
      const before = readBytes();
      await unpack(scratch, 'btrfs/to', packed(from));
      assert.ok(readBytes() - before > 3 << 20, `${readBytes() - before}`);
    });
  }

  test('deeper than anything that programs make is refused', async () => {
    using scratch = new Scratch('tree');
    const down: TreeRecord = { type: 'directory', name: name('d') };
    const pieces = Array.from({ length: 101 }, () => Array.from({ length: 100 }, () => down));
    await assert.rejects(unpack(scratch, 'to', sent(...pieces)), { code: 'ELOOP' });
    assert.ok((await openDescriptors()).size < 100);
  });
});
