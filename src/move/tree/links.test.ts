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
    const numbers = new Set(seen.slice(0, names).map((each) => each?.link));
    assert.equal(numbers.size, 1);
    // It is another entry once all names have come.
    const first = seen.map((each, index) => (each?.isFirst === true ? index : -1)).filter((index) => index >= 0);
    assert.deepEqual(first, [0, names]);
  }
});

test('an entry is complete with its last name, and one that gets another name meanwhile is seen', () => {
  const links = new Links();
  const see = (inode: bigint, names: number) =>
    links.see({ device: { major: 8, minor: 1 }, inode, links: names } as EntryStatus);
  assert.deepEqual(see(1n, 1), { link: 0, isFirst: true, complete: undefined });
  assert.deepEqual(see(2n, 2), { link: 1, isFirst: true, complete: undefined });
  assert.deepEqual(see(3n, 3), { link: 2, isFirst: true, complete: undefined });
  assert.deepEqual(see(2n, 2), { link: 1, isFirst: false, complete: { link: 1, names: 2 } });
  assert.equal(see(3n, 4), undefined);
  assert.equal(see(3n, 2), undefined);
  assert.deepEqual(links.rest(), [{ link: 2, names: 1 }]);
});
