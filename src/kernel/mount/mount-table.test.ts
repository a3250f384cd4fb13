import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { isNodeOf, type Mount, parseMountsWith, parseMountTable } from './mount-table.ts';

/** The escapes of seq_file's mangle for a path in mountinfo (fs/proc_namespace.c): ` \t\n\\`, and `#` in a source. */
function mangle(text: string): string {
  return text.replace(/[ \t\n\\#]/g, (character) => `\\${character.charCodeAt(0).toString(8).padStart(3, '0')}`);
}

function only(text: string): Mount {
  const [mount, ...others] = parseMountTable(text);
  assert.ok(mount !== undefined && others.length === 0);
  return mount;
}

describe('parseMountTable', () => {
  test('reads every field', () => {
    const mount = only('36 35 98:16 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n');
    assert.equal(mount.id, 36n);
    assert.equal(mount.parentId, 35n);
    assert.deepEqual(mount.device, { major: 98, minor: 16 });
    assert.equal(mount.root, '/mnt1');
    assert.equal(mount.target, '/mnt2');
    assert.deepEqual(mount.options, ['rw', 'noatime']);
    assert.equal(mount.fsType, 'ext3');
    assert.equal(mount.source, '/dev/root');
    assert.deepEqual(mount.superOptions, ['rw', 'errors=continue']);
  });

  test('reads any number of optional fields, in any order, known or not', () => {
    const propagation = (fields: string) => {
      const mount = only(`1 2 0:1 / /x rw ${fields}- tmpfs tmpfs rw`);
      return [mount.propagation, mount.peerGroup, mount.masterGroup];
    };
    assert.deepEqual(propagation(''), ['private', undefined, undefined]);
    assert.deepEqual(propagation('shared:7 '), ['shared', 7, undefined]);
    assert.deepEqual(propagation('master:8 propagate_from:2 '), ['slave', undefined, 8]);
    assert.deepEqual(propagation('shared:7 master:8 '), ['shared', 7, 8]);
    assert.deepEqual(propagation('unbindable '), ['unbindable', undefined, undefined]);
    assert.deepEqual(propagation('novelty:1 shared:3 '), ['shared', 3, undefined]);
  });

  test('PB20: gives back paths with blanks, backslashes, newlines and any UTF-8', () => {
    const path = fc.string({ unit: 'binary', maxLength: 60 }).map((text) => `/${text.replaceAll('\0', '')}`);
    fc.assert(
      fc.property(path, path, path, (root, target, source) => {
        const mount = only(`1 2 7:3 ${mangle(root)} ${mangle(target)} rw - ext4 ${mangle(source)} rw`);
        // A lone surrogate has no UTF-8, so the kernel cannot have it either.
        assert.deepEqual([mount.root, mount.target, mount.source], [root, target, source].map(toWellFormed));
      }),
    );
  });

  test('gives back UTF-8 of which every byte is escaped, and leaves what is no escape', () => {
    assert.equal(only('1 2 7:3 / /\\303\\244b rw - ext4 /dev/x rw').target, '/äb');
    assert.equal(only('1 2 7:3 / /a\\9 rw - ext4 /dev/x rw').target, '/a\\9');
  });

  test('a comma or blank within an option of the filesystem is not taken for a separator', () => {
    const mount = only('1 2 0:1 / /x rw - overlay overlay rw,lowerdir=/a\\054b\\040c,index=off');
    assert.deepEqual(mount.superOptions, ['rw', 'lowerdir=/a,b c', 'index=off']);
  });

  test('an empty source is empty, and a hyphen in the optional fields ends nothing by itself', () => {
    const mount = only('1 2 0:1 / /a-b/- rw - tmpfs  rw,size=1k');
    assert.deepEqual([mount.target, mount.source, mount.superOptions], ['/a-b/-', '', ['rw', 'size=1k']]);
  });

  test('keeps the order of the table and leaves out what is no line of it', () => {
    const lines = [
      '1 0 0:1 / / rw - a a rw',
      'nonsense',
      '',
      '3 1 0:2 / /x rw - b b rw',
      '2 1 0:2 / /x rw - c c rw',
      '',
    ];
    assert.deepEqual(
      parseMountTable(lines.join('\n')).map(({ id }) => id),
      [1n, 3n, 2n],
    );
    assert.deepEqual(parseMountTable(''), []);
  });

  test('never throws, whatever the text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        for (const mount of parseMountTable(`1 2 7:3 / ${text} - ${text}`)) {
          assert.equal(typeof mount.target, 'string');
          assert.ok(Array.isArray(mount.superOptions));
          assert.equal(typeof mount.propagation, 'string');
        }
      }),
    );
  });
});

function toWellFormed(text: string): string {
  return Buffer.from(text).toString();
}

test('the node of a device on a file is known by its name, also once that is gone from /dev', () => {
  for (const root of ['/sda2', '/dev/sda2', '/sda2//deleted']) assert.ok(isNodeOf({ root }, '/dev/sda2'), root);
  for (const root of ['/', '/sda', '/sda21', '/sda2/deleted']) assert.ok(!isNodeOf({ root }, '/dev/sda2'), root);
});

test('of a table only the lines with a text are parsed', () => {
  const lines = [
    '20 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw',
    '21 20 8:1 /pool/volumes/vol-a/data /x rw - ext4 /dev/sda1 rw',
    '22 20 8:1 /pool/volumes/vol-b/data /ü/vol-a rw - ext4 /dev/sda1 rw',
    '23 20 8:1 /pool/volumes/vol-b/data /y rw - ext4 /dev/sda1 rw',
  ];
  for (const end of ['', '\n']) {
    const table = Buffer.from(lines.join('\n') + end);
    assert.deepEqual(
      parseMountsWith(table, 'vol-a').map(({ target }) => target),
      ['/x', '/ü/vol-a'],
    );
    assert.deepEqual(parseMountsWith(table, 'vol-c'), []);
    assert.equal(parseMountsWith(table, ' rw').length, 4);
  }
});
