import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseFileLocks } from './lock.ts';

test('finds held flocks only: no waiters, no record locks, no leases', () => {
  const text = `1: FLOCK  ADVISORY  WRITE 4711 fe:00:835702 0 EOF
1: -> FLOCK  ADVISORY  WRITE 4712 fe:00:835702 0 EOF
2: POSIX  ADVISORY  READ 12 fe:00:99 128 128
3: OFDLCK ADVISORY  READ -1 fe:00:99 0 EOF
4: LEASE  ACTIVE    WRITE 4711 fe:00:98 0 EOF
5: FLOCK  ADVISORY  READ 0 00:2a:18446744073709551615 0 EOF
6: FLOCK  ADVISORY  WRITE -1 103:100000:5 0 EOF
`;
  assert.deepEqual(parseFileLocks(text), [
    { pid: 4711, device: { major: 254, minor: 0 }, inode: 835702n },
    { pid: 0, device: { major: 0, minor: 42 }, inode: 18446744073709551615n },
    { pid: 0, device: { major: 259, minor: 1048576 }, inode: 5n },
  ]);
  assert.deepEqual(parseFileLocks(''), []);
});
