import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { EntryStatus } from '../../kernel/file/path.ts';
import { Links } from './links.ts';

test('an entry of several names has one number, also after millions of others', () => {
  const links = new Links();
  const see = (inode: number, names: number) =>
    links.see({ device: { major: 8, minor: 1 }, inode: BigInt(inode), links: names } as EntryStatus);
  const earlier = 2 ** 22 + 100;
  for (let inode = 1; inode <= earlier; inode++) for (let name = 0; name < 2; name++) see(inode, 2);
  for (const names of [2, 3, 4, 9]) {
    const seen = Array.from({ length: 2 * names }, () => see(1e9 + names, names));
    const numbers = new Set(seen.slice(0, names).map(({ link }) => link));
    assert.equal(numbers.size, 1);
    // It is another entry once all names have come.
    const first = seen.map(({ isFirst }, index) => (isFirst ? index : -1)).filter((index) => index >= 0);
    assert.deepEqual(first, [0, names]);
  }
});
