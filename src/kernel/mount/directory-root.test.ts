import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { findRoot, isAtOrBelow, rootThrough, showsDirectory } from './directory-root.ts';
import { parseMountTable } from './mount-table.ts';

const table = parseMountTable(`
21 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw
30 21 8:17 / /pool rw shared:2 - xfs /dev/sdb1 rw
31 30 8:33 /inner /pool/deep/er rw - xfs /dev/sdc1 rw
32 21 0:40 / /run rw - tmpfs tmpfs rw
33 32 8:17 /volumes/a/data /run/pods/a rw - xfs /dev/sdb1 rw
34 30 0:50 / /pool rw - tmpfs over rw
`);
const hidden = table.filter(({ id }) => id !== 34n);

describe('what mount tables call a directory', () => {
  test('on the root, on another mount, on a mount in that', () => {
    assert.deepEqual(findRoot(hidden, '/var/lib'), { device: { major: 8, minor: 1 }, root: '/var/lib' });
    assert.deepEqual(findRoot(hidden, '/'), { device: { major: 8, minor: 1 }, root: '/' });
    assert.deepEqual(findRoot(hidden, '/pool/v'), { device: { major: 8, minor: 17 }, root: '/v' });
    assert.deepEqual(findRoot(hidden, '/pool/deep/er/x'), { device: { major: 8, minor: 33 }, root: '/inner/x' });
    assert.deepEqual(findRoot(hidden, '/poolside'), { device: { major: 8, minor: 1 }, root: '/poolside' });
  });

  test('through a bind mount it is the same', () => {
    assert.deepEqual(findRoot(hidden, '/run/pods/a/b'), { device: { major: 8, minor: 17 }, root: '/volumes/a/data/b' });
  });

  test('of mounts on one path the upper one counts, and hides what lies in the lower', () => {
    assert.deepEqual(findRoot(table, '/pool/v'), { device: { major: 0, minor: 50 }, root: '/v' });
    assert.equal(findRoot([], '/pool'), undefined);
  });

  test('a mount shows it that shows all of it, or a part', () => {
    const directory = { device: { major: 8, minor: 17 }, root: '/volumes/a/data' };
    const shown = hidden.filter((mount) => showsDirectory(mount, directory)).map(({ id }) => id);
    assert.deepEqual(shown, [33n]);
    assert.ok(showsDirectory({ device: directory.device, root: '/volumes/a/data/sub' }, directory));
    assert.ok(!showsDirectory({ device: directory.device, root: '/volumes/a/data2' }, directory));
  });

  test('paths', () => {
    assert.ok(isAtOrBelow('/a/b', '/'));
    assert.ok(isAtOrBelow('/', '/'));
    assert.ok(!isAtOrBelow('/ab', '/a'));
    assert.equal(rootThrough({ root: '/x', target: '/' }, '/'), '/x');
    assert.equal(rootThrough({ root: '/x', target: '/a' }, '/a/b'), '/x/b');
    assert.equal(rootThrough({ root: '/x', target: '/a' }, '/b'), undefined);
  });
});
