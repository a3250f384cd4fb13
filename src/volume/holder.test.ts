import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { describeHolders, type Holder } from './holder.ts';

const postgres: Holder = { kind: 'process', pid: 1234, command: 'postgres', path: '/pods/a/mount/data/base' };
const shim: Holder = { kind: 'mount', path: '/mnt', namespaceOf: { pid: 77, command: 'containerd-shim' } };
const here: Holder = { kind: 'mount', path: '/pods/a/mount', namespaceOf: undefined };
const stacked: Holder = { kind: 'device', path: '/dev/dm-0' };
const mapped: Holder = { kind: 'device', path: '/dev/dm-1', name: 'nested-inner' };

describe('holders in words', () => {
  const cases: readonly [holders: readonly Holder[], words: string][] = [
    [[postgres], 'by process 1234 (postgres) at /pods/a/mount/data/base'],
    [[here], 'by the mount at /pods/a/mount'],
    [[shim, stacked], 'by the mount at /mnt for process 77 (containerd-shim) and 1 other'],
    [[mapped], 'by device /dev/dm-1 (nested-inner)'],
    [[stacked, here, shim], 'by the mount at /pods/a/mount and 2 others'],
  ];
  for (const [holders, words] of cases) {
    test(words, () => assert.equal(describeHolders({ holders, isComplete: true }), words));
  }

  test('nobody was found', () => {
    assert.match(describeHolders({ holders: [], isComplete: true }), /cannot see/);
    assert.match(describeHolders({ holders: [], isComplete: false }), /time/);
  });

  test('X03: it stays short, however long the paths are', () => {
    const holders = Array.from({ length: 1000 }, () => ({ ...postgres, path: `/${'x'.repeat(4000)}` }));
    assert.ok(describeHolders({ holders, isComplete: true }).length < 128);
  });
});
