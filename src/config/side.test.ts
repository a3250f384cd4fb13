import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { chooseSide, type SidedPool, whyNotOneDriver } from './side.ts';

const files: SidedPool = { name: 'share', kind: 'nfs', clusterDriver: 'files.holdfast.csi.dev' };
const disks: SidedPool = { name: 'cloud', kind: 'aws-ebs', clusterDriver: 'disks.holdfast.csi.dev' };
const local: SidedPool = { name: 'fast', kind: 'image', clusterDriver: undefined };

describe('the side of a process', () => {
  test('a driver for the disks of its node has none', () => {
    const driverName = 'holdfast.csi.dev';
    assert.deepEqual(chooseSide(undefined, undefined), { side: undefined, driverName });
    assert.deepEqual(chooseSide(undefined, [local]), { side: undefined, driverName });
  });

  test('a home has pools of the cluster, and the name of their driver', () => {
    assert.deepEqual(chooseSide('home', [files]), { side: 'home', driverName: 'files.holdfast.csi.dev' });
    assert.deepEqual(chooseSide('home', [disks, disks]), { side: 'home', driverName: 'disks.holdfast.csi.dev' });
  });

  test('a home of volumes that PersistentVolumes name has none: pools: {}', () => {
    assert.deepEqual(chooseSide('home', []), { side: 'home', driverName: 'files.holdfast.csi.dev' });
  });

  test('it is both if nothing says otherwise', () => {
    assert.deepEqual(chooseSide(undefined, [files]), { side: 'both', driverName: 'files.holdfast.csi.dev' });
    assert.deepEqual(chooseSide('both', [files]), chooseSide(undefined, [files]));
  });

  test('a node has no pools', () => {
    assert.deepEqual(chooseSide('node', undefined), { side: 'node', driverName: 'files.holdfast.csi.dev' });
  });

  const refused: Readonly<Record<string, readonly [Parameters<typeof chooseSide>, RegExp]>> = {
    'a node with pools': [['node', [files]], /a node needs no pools/],
    'a home without pools': [['home', undefined], /'home' needs pools that every node can reach/],
    'a driver for local disks with pools: {}': [[undefined, []], /name at least one pool/],
    'both sides with pools: {}': [['both', []], /name at least one pool/],
    'a node with pools: {}': [['node', []], /a node needs no pools/],
    'a home of local pools': [['both', [local]], /'both' needs pools that every node can reach/],
  };
  for (const [what, [[asked, pools], message]] of Object.entries(refused)) {
    test(`refused: ${what}`, () => {
      const chosen = chooseSide(asked, pools);
      assert.match('problem' in chosen ? chosen.problem : '', message);
    });
  }

  test('pools of one sort are for one driver', () => {
    for (const pools of [[], [local, local], [files, files]]) assert.equal(whyNotOneDriver(pools), undefined);
  });

  test('refused: pools of both sorts, and pools for two drivers', () => {
    assert.match(whyNotOneDriver([files, local]) ?? '', /share \(nfs\), and pool fast \(image\) lies on this node/);
    assert.match(whyNotOneDriver([files, disks]) ?? '', /are for two drivers \(files.*, disks.*\)/);
  });
});
