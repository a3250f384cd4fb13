import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { SysfsTree } from '../../../test/support/sysfs-tree.ts';
import {
  activePathsIn,
  isMapWithoutPaths,
  isWaitingIn,
  multipathMapOf,
  multipathMapOver,
  partitionsOf,
} from './multipath.ts';

const wwid = '36001405aabbccddeeff0011223344556';
/** Files below /sys, as Linux 6.1 has them: a map over two paths, a partition on it, one without paths, and no maps. */
const files: Readonly<Record<string, string>> = {
  ...mapped('dm-0', '253:0', `mpath-${wwid}`),
  ...mapped('dm-1', '253:1', `part1-mpath-${wwid}`),
  ...mapped('dm-2', '253:2', `part1-mpath-${wwid}0`),
  ...mapped('dm-3', '253:3', 'CRYPT-LUKS2-0123-name'),
  ...mapped('dm-4', '253:4', 'mpath-36001405ffffffffffffffffffffffff0'),
  ...mapped('dm-5', '253:5', `copy-mpath-${wwid}`),
  'block/sda/dev': '8:0\n',
  'block/sdb/dev': '8:16\n',
  'block/sdc/dev': '8:32\n',
};
const builtOn: readonly (readonly [string, string])[] = [
  ['sda', 'dm-0'],
  ['sdb', 'dm-0'],
  ['sdc', 'dm-3'],
  ['dm-0', 'dm-1'],
  ['dm-0', 'dm-2'],
  ['dm-0', 'dm-3'],
  ['dm-0', 'dm-5'],
];
const map = {
  ...{ name: 'dm-0', devicePath: '/dev/dm-0', device: { major: 253, minor: 0 }, sizeBytes: 320n << 20n, wwid },
  paths: [
    { name: 'sda', device: { major: 8, minor: 0 } },
    { name: 'sdb', device: { major: 8, minor: 16 } },
  ],
};

function mapped(name: string, dev: string, uuid: string) {
  return { [`block/${name}/dev`]: dev, [`block/${name}/size`]: '655360\n', [`block/${name}/dm/uuid`]: `${uuid}\n` };
}

let tree: SysfsTree;
let root: string;

before(() => {
  tree = new SysfsTree(files);
  root = tree.root;
  for (const path of Object.keys(files).filter((each) => each.endsWith('/dev'))) {
    const name = path.split('/')[1] ?? '';
    tree.link(`class/block/${name}`, `block/${name}`);
    tree.link(`dev/block/${files[path]?.trim()}`, `block/${name}`);
  }
  for (const [below, above] of builtOn) {
    tree.link(`block/${below}/holders/${above}`, `block/${above}`);
    tree.link(`block/${above}/slaves/${below}`, `block/${below}`);
  }
});
after(() => tree[Symbol.dispose]());

describe('the status of a map', () => {
  test('names the paths that work; the state of a group does not say it', () => {
    const [first, second] = map.paths.map(({ device }) => device);
    assert.deepEqual(activePathsIn('2 0 1 0 2 1 A 0 1 2 8:0 F 1 0 1 E 0 1 2 8:16 A 0 0 1'), [second]);
    assert.deepEqual(activePathsIn('2 0 0 0 1 1 A 0 2 0 8:0 A 1 8:16 A 0'), [first, second]);
    assert.deepEqual(activePathsIn('2 3 1 0 2 1 A 0 1 2 8:0 F 1 0 1 A 0 1 2 8:16 F 2 0 1'), []);
    assert.deepEqual(activePathsIn('2 3 0 0 0 0'), []);
  });
});

describe('maps of dm-multipath in sysfs', () => {
  test('are found by their path and by their disk', () => {
    assert.deepEqual(multipathMapOver('sda', root), map);
    assert.deepEqual(multipathMapOver('sdb', root), map);
    assert.deepEqual(multipathMapOf(wwid, root), map);
  });

  test('are no other devices that something is built on', () => {
    assert.equal(multipathMapOver('sdc', root), undefined);
    assert.equal(multipathMapOver('sdd', root), undefined);
    assert.equal(multipathMapOf(`${wwid}0`, root), undefined);
  });

  test('have the partitions of kpartx, and not what else is on them', () => {
    assert.deepEqual(partitionsOf('dm-0', wwid, root), [`part1-mpath-${wwid}`]);
  });

  test('wait for a path if their features say so', () => {
    const rest = '1 alua 1 1 service-time 0 2 2 8:0 1 1 8:16 1 1';
    assert.equal(isWaitingIn(`1 queue_if_no_path ${rest}`), true);
    assert.equal(isWaitingIn(`3 queue_if_no_path queue_mode mq ${rest}`), true);
    assert.equal(isWaitingIn(`2 queue_mode mq ${rest}`), false);
    assert.equal(isWaitingIn(`0 ${rest}`), false);
  });

  test('have lost all paths if none is below them', () => {
    const lost = (minor: number) => isMapWithoutPaths({ major: 253, minor }, root);
    assert.deepEqual([0, 3, 4, 9].map(lost), [false, false, true, false]);
  });
});
