import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { SysfsTree } from '../../../test/support/sysfs-tree.ts';
import { iscsiSessions } from './iscsi.ts';

const target = 'iqn.2026-01.dev.holdfast:target';

/** Paths below /sys, as Linux 6.1 has them: two sessions to one target, and one to another. */
const session = (host: number, id: number) => `devices/platform/host${host}/session${id}`;
const files: Readonly<Record<string, string>> = {
  ...sessionFiles(2, 1, { targetname: target, ifacename: 'holdfast', state: 'LOGGED_IN', target_id: '0' }),
  ...connectionFiles(2, 1, { persistent_address: '127.0.0.1', persistent_port: '3260' }),
  ...lunFiles(2, 1, 1, 'sda', '8:0', '655360'),
  ...lunFiles(2, 1, 11, 'sdb', '8:16', '1310720'),
  ...sessionFiles(3, 2, { targetname: target, ifacename: 'default', state: 'FAILED', target_id: '0' }),
  ...sessionFiles(4, 3, { targetname: `${target}2`, ifacename: 'holdfast', state: 'LOGGED_IN', target_id: '0' }),
};

function sessionFiles(host: number, id: number, attributes: Readonly<Record<string, string>>) {
  const directory = `${session(host, id)}/iscsi_session/session${id}`;
  return Object.fromEntries(Object.entries(attributes).map(([name, text]) => [`${directory}/${name}`, `${text}\n`]));
}

function connectionFiles(host: number, id: number, attributes: Readonly<Record<string, string>>) {
  const directory = `${session(host, id)}/connection${id}:0/iscsi_connection/connection${id}:0`;
  return Object.fromEntries(Object.entries(attributes).map(([name, text]) => [`${directory}/${name}`, `${text}\n`]));
}

function lunFiles(host: number, id: number, lun: number, name: string, dev: string, sectors: string) {
  const directory = `${session(host, id)}/target${host}:0:0/${host}:0:0:${lun}/block/${name}`;
  return { [`${directory}/dev`]: `${dev}\n`, [`${directory}/size`]: `${sectors}\n` };
}

let tree: SysfsTree;
let root: string;

before(() => {
  tree = new SysfsTree(files);
  root = tree.root;
  for (const [host, id] of [
    [2, 1],
    [3, 2],
    [4, 3],
  ] as const) {
    tree.link(`class/iscsi_session/session${id}`, `${session(host, id)}/iscsi_session/session${id}`);
    tree.link(`${session(host, id)}/iscsi_session/session${id}/device`, session(host, id));
  }
  for (const [disk, map] of [
    ['sda', 'dm-1'],
    ['sdb', 'dm-0'],
  ] as const) {
    tree.link(`block/${disk}/holders/${map}`, `devices/virtual/block/${map}`);
    tree.link(`block/${map}`, `devices/virtual/block/${map}`);
  }
});
after(() => tree[Symbol.dispose]());

describe('sessions of iSCSI in sysfs', () => {
  test('are those of the target that is meant, with their side, portal, host and units', () => {
    const [first, second, ...rest] = iscsiSessions(target, root);
    assert.deepEqual(rest, []);
    const lun = (number: string, name: string, minor: number, mebibytes: bigint) => ({
      ...{ lun: number, address: `2:0:0:${number}`, name, devicePath: `/dev/${name}`, device: { major: 8, minor } },
      sizeBytes: mebibytes << 20n,
    });
    assert.deepEqual(first, {
      ...{ id: 1, name: 'session1', targetName: target, ifaceName: 'holdfast', state: 'LOGGED_IN' },
      ...{ portal: { address: '127.0.0.1', port: '3260' }, host: '2', targetId: '0' },
      luns: [lun('1', 'sda', 0, 320n), lun('11', 'sdb', 16, 640n)],
    });
    assert.deepEqual(
      [second?.id, second?.ifaceName, second?.state, second?.portal, second?.luns],
      [2, 'default', 'FAILED', undefined, []],
    );
  });

  test('are none without the module', () => assert.deepEqual(iscsiSessions(target, join(root, 'nothing')), []));
});
