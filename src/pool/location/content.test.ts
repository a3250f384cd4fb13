import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Content } from '../../kernel/block/blkid.ts';
import { beginningBytes, isFreshLog, judgeLocation, logPlace } from './content.ts';

const uuid = '01020304-0506-4708-890a-0b0c0d0e0f10';
const uuidBytes = Buffer.from(uuid.replaceAll('-', ''), 'hex');
const blank: Content = { kind: 'blank' };
const xfs: Content = { kind: 'filesystem', type: 'xfs', uuid };

/** A disk's beginning: a superblock, unless it is lost, and a block behind it. */
function beginning(changes: (bytes: Buffer) => void = () => undefined): Buffer {
  const bytes = Buffer.alloc(beginningBytes);
  bytes.write('XFSB');
  uuidBytes.copy(bytes, 32);
  bytes[126] = 1;
  uuidBytes.copy(bytes, 4096 + 40);
  changes(bytes);
  return bytes;
}

describe('what is to be done with a disk', () => {
  test('ST09: it is formatted if it is blank, or all that is on it is ours', () => {
    const zeros = Buffer.alloc(beginningBytes);
    assert.deepEqual(judgeLocation({ content: blank, beginning: zeros, begunUuid: undefined }), { kind: 'format' });
    for (const content of [blank, xfs]) {
      const own = { content, begunUuid: uuid };
      assert.deepEqual(judgeLocation({ ...own, beginning: beginning() }), { kind: 'format' });
      assert.deepEqual(judgeLocation({ ...own, beginning: beginning((bytes) => bytes.fill(0, 0, 512)) }), {
        kind: 'format',
      });
      assert.deepEqual(judgeLocation({ ...own, beginning: beginning((bytes) => bytes.fill(0, 126, 127)) }), {
        kind: 'finished',
      });
    }
  });

  test('ST09: one byte of somebody else, in the beginning or of a signature anywhere, and it is not', () => {
    const foreign = (content: Content, bytes = beginning()) =>
      assert.equal(judgeLocation({ content, beginning: bytes, begunUuid: uuid }).kind, 'foreign');
    assert.equal(judgeLocation({ content: blank, beginning: beginning(), begunUuid: undefined }).kind, 'foreign');
    const other = { content: blank, beginning: beginning(), begunUuid: uuid.replace('1', '2') };
    assert.equal(judgeLocation(other).kind, 'foreign');
    for (const at of [8192, 300_000, beginningBytes - 1])
      foreign(
        blank,
        beginning((bytes) => bytes.fill(1, at, at + 1)),
      );
    foreign(
      blank,
      beginning((bytes) => bytes.fill(7, 32, 48)),
    );
    // The state that xfs_admin leaves: the new UUID in its usual place, the old one behind it.
    foreign(
      blank,
      beginning((bytes) => uuidBytes.copy(bytes.fill(7, 32, 48), 248)),
    );
    foreign({ kind: 'ambivalent' });
    foreign({ kind: 'filesystem', type: 'ext4', uuid });
    foreign({ kind: 'partitions', type: 'gpt' });
    foreign({ kind: 'other', type: 'crypto_LUKS' });
  });

  test('an XFS that is not known to be half made is a pool, or to become one', () => {
    for (const begunUuid of [undefined, uuid.replace('1', '2')]) {
      assert.deepEqual(judgeLocation({ content: xfs, beginning: beginning(), begunUuid }), { kind: 'mount' });
    }
    const used = beginning((bytes) => bytes.fill(1, 8192, 8193));
    assert.deepEqual(judgeLocation({ content: xfs, beginning: used, begunUuid: uuid }), { kind: 'mount' });
  });
});

describe('the log of a filesystem', () => {
  test('is where its superblock says', () => {
    const bytes = beginning((superblock) => {
      superblock.writeUInt32BE(4096, 4);
      superblock.writeBigUInt64BE((2n << 15n) + 6n, 48);
      superblock.writeUInt32BE(25_600, 84);
      superblock.writeUInt32BE(16_384, 96);
      superblock.writeUInt8(15, 124);
    });
    assert.deepEqual(logPlace(bytes), { offsetBytes: 209_739_776n, lengthBytes: 64n << 20n });
    assert.equal(logPlace(beginning()), undefined);
  });

  test('is fresh until something stands behind its first record', () => {
    const log = Buffer.alloc(1 << 20);
    assert.ok(isFreshLog(log));
    log.writeUInt32BE(0xfeedbabe, 0);
    log.writeUInt32BE(512, 12);
    log.fill(1, 512, 1024);
    assert.ok(isFreshLog(log));
    log[1024] = 1;
    assert.ok(!isFreshLog(log));
    log.fill(0).writeUInt32BE(1, 0);
    assert.ok(!isFreshLog(log));
  });
});
