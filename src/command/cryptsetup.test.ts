import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { addKeyArguments, formatArguments, openArguments } from './cryptsetup.ts';

const random = { bytes: Buffer.alloc(32, 7), isRandom: true };
const passphrase = { bytes: Buffer.from('correct horse'), isRandom: false };
const sizes = { sectorBytes: 4096, headerBytes: 16 << 20, dataOffsetBytes: 64 << 20 };
const layout = { devicePath: '/dev/loop7', uuid: 'u-u-i-d', label: 'key-1', ...sizes };
const following = (args: readonly string[], name: string) => args[args.indexOf(name) + 1];

describe('what cryptsetup is told', () => {
  test('the data begins where the record says, in sectors of 512 bytes', () => {
    const args = formatArguments(layout, random);
    assert.equal(following(args, '--offset'), `${2 * 65536}`);
    assert.equal(following(args, '--luks2-keyslots-size'), `${(16 << 20) - 2 * (16 << 10)}`);
    assert.equal(following(args, '--sector-size'), '4096');
    assert.equal(following(args, '--label'), 'key-1');
    assert.equal(args.at(-1), '/dev/loop7');
  });

  test('a random key is not stretched; a passphrase is, with 64 MiB', () => {
    assert.equal(following(formatArguments(layout, random), '--pbkdf'), 'pbkdf2');
    const args = formatArguments(layout, passphrase);
    assert.equal(following(args, '--pbkdf'), 'argon2id');
    assert.equal(following(args, '--pbkdf-memory'), '65536');
  });

  test('X01: a key is only ever its standard input', () => {
    const open = openArguments({ devicePath: '/dev/loop7', name: 'holdfast-x' });
    const add = addKeyArguments('/dev/loop7', passphrase.bytes.length, random);
    for (const args of [formatArguments(layout, passphrase), open, add]) {
      assert.equal(following(args, '--key-file'), '-');
      assert.ok(!args.some((each) => each.includes('horse')));
    }
    assert.equal(following(add, '--keyfile-size'), '13');
  });

  test('an open device grows without a key, and tells its disk what is free', () => {
    const args = openArguments({ devicePath: '/dev/loop7', name: 'holdfast-x' });
    for (const each of ['--disable-keyring', '--allow-discards']) assert.ok(args.includes(each));
    assert.deepEqual(args.slice(-2), ['/dev/loop7', 'holdfast-x']);
  });
});
