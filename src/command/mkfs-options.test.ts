import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { InvalidArgument } from '../volume/errors.ts';
import { filesystemTypes } from '../volume/filesystem.ts';
import { chooseBlockSize, parseMkfsOptions } from './mkfs-options.ts';

describe('mkfsOptions', () => {
  test('options that shape the filesystem pass', () => {
    assert.deepEqual(parseMkfsOptions('ext4', '-O ^has_journal  -m 1'), ['-O', '^has_journal', '-m', '1']);
    assert.deepEqual(parseMkfsOptions('xfs', '-m crc=1,reflink=1 -K'), ['-m', 'crc=1,reflink=1', '-K']);
    assert.deepEqual(parseMkfsOptions('btrfs', '--csum xxhash'), ['--csum', 'xxhash']);
    assert.deepEqual(parseMkfsOptions('ext4', '-O ^bigalloc'), ['-O', '^bigalloc']);
    assert.deepEqual(parseMkfsOptions('ext4', ' '), []);
  });

  for (const [fsType, options] of [
    ['xfs', '-d name=/dev/sda'],
    ['xfs', '-d file=1,size=1g'],
    ['xfs', '-l logdev=sdb'],
    ['ext4', '-J device=UUID'],
    ['ext4', '-d /etc'],
    ['ext4', 'toString 1'],
    ['ext4', '-F'],
    ['ext4', '-E offset=0'],
    ['ext4', '/dev/sda'],
    ['ext4', '-b'],
    ['ext4', '-b -O'],
    ['ext4', '-L $(reboot)'],
    ['ext4', '-O journal_dev'],
    ['ext4', '-O Journal_Dev'],
    ['ext4', '-O bigalloc'],
    ['ext4', '-O fast_commit'],
    ['ext4', '-O ^has_journal,bigalloc'],
    ['ext4', '-O +BigAlloc'],
    ['ext4', '-O FEATURE_R9'],
    ['ext4', '-C 65536'],
    ['btrfs', '--rootdir /etc'],
    ['btrfs', '-f'],
  ] as const) {
    test(`CV10: '${options}' for ${fsType} is refused`, () => {
      assert.throws(() => parseMkfsOptions(fsType, options), InvalidArgument);
    });
  }

  test('those that choose the size of blocks or sectors are told from others', () => {
    assert.equal(chooseBlockSize('ext4', ['-m', '1', '-b', '1024']), true);
    assert.equal(chooseBlockSize('ext4', ['-m', '1']), false);
    assert.equal(chooseBlockSize('xfs', ['-s', 'size=512']), true);
    assert.equal(chooseBlockSize('xfs', ['-b', 'size=1024']), true);
    assert.equal(chooseBlockSize('xfs', ['-i', 'size=2048']), false);
    // Never smaller than 4096 bytes.
    assert.equal(chooseBlockSize('btrfs', ['-s', '8192']), false);
  });

  test('nothing that passes holds a path or stands alone as an operand', () => {
    const word = fc.oneof(
      fc.constantFrom('-b', '-d', '-O', '-K', '--rootdir', 'name=/dev/sda', '4096', '-E'),
      fc.string(),
    );
    fc.assert(
      fc.property(fc.constantFrom(...filesystemTypes), fc.array(word), (fsType, words) => {
        let args: string[];
        try {
          args = parseMkfsOptions(fsType, words.join(' '));
        } catch (error) {
          assert.ok(error instanceof InvalidArgument);
          return;
        }
        for (const [index, arg] of args.entries()) {
          assert.ok(!arg.includes('/'));
          assert.ok(arg.startsWith('-') || args[index - 1]?.startsWith('-'));
        }
      }),
    );
  });
});
