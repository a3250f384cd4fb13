import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { Tally } from '../../../csi-sanity/report.ts';
import { type DiskSanityRun, passesDiskSanity } from '../network-disk/sanity.ts';

const script = (name: string) => `sh ${fileURLToPath(new URL(`../${name}/target.sh`, import.meta.url))}`;
const count = 5;
const sizeBytes = 320 * 2 ** 20;

/** The same for both kinds: the home and the node service are one driver's. */
const expected: Tally = {
  passed: 40,
  failed: 0,
  pending: 1,
  // Left out, each with its reason in network-disk/sanity.ts; and a disk has no limit of volumes for a node.
  skipped: { '': 54, 'testnodevolumeattachlimit not enabled': 1 },
};

const numbers = Array.from({ length: count }, (_, index) => index + 1);
const uuidOf = (number: number) => `11111111-2222-4333-8444-55555555550${number}`;

const nvme: DiskSanityRun = {
  prepare: () => {
    const namespaces = numbers.map((number) => `${script('nvme')} namespace /target ${number} ${uuidOf(number)} ext4`);
    return [`${script('nvme')} make /target`, ...namespaces].join(' && ');
  },
  disks: numbers.map((number) => ({
    handle: `disk-${number}`,
    sizeBytes,
    context: {
      kind: 'nvme-tcp',
      nqn: 'nqn.2026-01.dev.holdfast:target',
      portals: '127.0.0.1:4420',
      uuid: uuidOf(number),
    },
  })),
  expected,
};

const iscsi: DiskSanityRun = {
  prepare: (vm) => {
    const target = script('iscsi');
    const units = numbers.flatMap((number) => [
      `${target} backing /target unit-${number} ext4`,
      `${target} map ${number} unit-${number}`,
    ]);
    return [`${target} install ${vm.iscsiDirectory}`, `${target} make`, ...units].join(' && ');
  },
  disks: numbers.map((number) => ({
    handle: `disk-${number}`,
    sizeBytes,
    context: {
      kind: 'iscsi',
      iqn: 'iqn.2026-01.dev.holdfast:target',
      portals: '127.0.0.1:3260',
      lun: `${number}`,
    },
  })),
  expected,
};

test('csi-sanity, against namespaces of a target of NVMe over TCP', (t) => passesDiskSanity(t, nvme));
test('csi-sanity, against logical units of a target of iSCSI', (t) => passesDiskSanity(t, iscsi));
