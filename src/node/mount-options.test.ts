import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { InvalidArgument } from '../volume/errors.ts';
import { attributesShown, completeAttributes, hasAttributes, parseMountFlags } from './mount-options.ts';

describe('mount_flags', () => {
  const cases: [string, string[], ReturnType<typeof parseMountFlags>][] = [
    ['nothing', [], { attributes: {}, parameters: [] }],
    [
      'attributes of the mount',
      ['noatime', 'nosuid'],
      { attributes: { atime: 'noatime', nosuid: true }, parameters: [] },
    ],
    [
      'a list in one flag',
      ['noatime,nodev', 'ro'],
      {
        attributes: { atime: 'noatime', nodev: true, readonly: true },
        parameters: [],
      },
    ],
    [
      'the last one wins',
      ['ro', 'rw', 'noatime', 'relatime'],
      {
        attributes: { readonly: false, atime: 'relatime' },
        parameters: [],
      },
    ],
    [
      'parameters of the filesystem',
      ['discard', 'commit=30', 'context=a=b'],
      {
        attributes: {},
        parameters: [['discard'], ['commit', '30'], ['context', 'a=b']],
      },
    ],
    [
      'an SELinux context as the kubelet writes it, with a comma in quotes',
      ['noatime,context="system_u:object_r:container_file_t:s0:c1,c2"', 'discard'],
      {
        attributes: { atime: 'noatime' },
        parameters: [['context', 'system_u:object_r:container_file_t:s0:c1,c2'], ['discard']],
      },
    ],
    ['words for fstab only', ['defaults', '_netdev,nofail', ''], { attributes: {}, parameters: [] }],
    [
      'words for fstab, and those that mount(8) keeps',
      ['auto,nouser', 'x-systemd.device-timeout=30s', 'x-gvfs-hide', 'comment=ours', 'silent', 'iversion', 'noauto'],
      { attributes: {}, parameters: [] },
    ],
    [
      'blanks around a comma',
      ['noatime, nodiratime', ' discard ,, commit=5 '],
      { attributes: { atime: 'noatime', nodiratime: true }, parameters: [['discard'], ['commit', '5']] },
    ],
    [
      'user, as mount(8) has it',
      ['user', 'exec'],
      { attributes: { nosuid: true, nodev: true, noexec: false }, parameters: [] },
    ],
    ['an empty value', ['data='], { attributes: {}, parameters: [['data', '']] }],
  ];
  for (const [what, flags, expected] of cases) {
    test(what, () => assert.deepEqual(parseMountFlags(flags), expected));
  }

  const refused = [
    'bind',
    'rbind',
    'remount',
    'move',
    'loop',
    'loop=/dev/loop3',
    'offset=512',
    'shared',
    'rslave',
    'private',
    'make-private',
    'make-rshared',
    'subvol=/other',
    'subvolid=5',
    'device=/dev/sda',
    'sb=32768',
    'journal_dev=0x700',
    'journal_path=/dev/sda',
    'logdev=/dev/sda',
    'rtdev=/dev/sda',
    'source=/dev/sda',
    'X-mount.subdir=x',
    'x-mount.mkdir',
    '=x',
    'a\0b',
  ];
  for (const word of refused) {
    test(`refuses ${JSON.stringify(word)} and does not repeat it (X02)`, () => {
      const flags = ['noatime', `sync,${word}`];
      assert.throws(
        () => parseMountFlags(flags),
        (error) => {
          assert.ok(error instanceof InvalidArgument);
          assert.ok(!error.message.includes('=/') && !error.message.includes('noatime'));
          return true;
        },
      );
    });
  }
});

describe('attributes', () => {
  test('of the mount table', () => {
    assert.deepEqual(attributesShown(['rw', 'relatime']), completeAttributes({}));
    assert.deepEqual(
      attributesShown(['ro', 'nosuid', 'nodev', 'noexec', 'noatime', 'nodiratime', 'nosymfollow', 'idmapped']),
      completeAttributes({
        readonly: true,
        nosuid: true,
        nodev: true,
        noexec: true,
        nodiratime: true,
        nosymfollow: true,
        atime: 'noatime',
      }),
    );
    assert.deepEqual(attributesShown(['rw']), completeAttributes({ atime: 'strictatime' }));
  });

  test('compared whatever their order', () => {
    const a = completeAttributes({ nosuid: true, atime: 'noatime' });
    assert.ok(hasAttributes(a, completeAttributes({ atime: 'noatime', nosuid: true })));
    assert.ok(!hasAttributes(a, completeAttributes({ atime: 'noatime' })));
    assert.ok(!hasAttributes(a, completeAttributes({ nosuid: true, readonly: true, atime: 'noatime' })));
  });
});
