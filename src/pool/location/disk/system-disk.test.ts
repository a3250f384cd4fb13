import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { isRootFilesystem } from './system-disk.ts';

describe('the filesystem at the root of the node is told by its mount', () => {
  for (const [what, mount, path, expected] of [
    ['on the node', { root: '/', target: '/' }, '/srv/fast/pool', true],
    ['in a container with that host path', { root: '/srv/fast', target: '/srv/fast' }, '/srv/fast/pool', true],
    ['a disk of its own, on the node', { root: '/', target: '/srv/fast' }, '/srv/fast/pool', false],
    ['a disk of its own, in a container', { root: '/', target: '/srv/fast' }, '/srv/fast', false],
    [
      'a directory of a disk, in a container',
      { root: '/pools', target: '/mnt/disk/pools' },
      '/mnt/disk/pools/a',
      false,
    ],
  ] as const) {
    test(what, () => assert.equal(isRootFilesystem(mount, path), expected));
  }
});
