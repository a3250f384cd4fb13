import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { modes } from '../../../csi-sanity/expectations.ts';
import { installCsiSanity } from '../../../csi-sanity/install.ts';
import { readSpecs, reportLines, tally } from '../../../csi-sanity/report.ts';
import { Scratch } from '../../support/scratch.ts';
import { type NodeSetup, startNode } from '../node/start-node.ts';

const mebibyte = 1 << 20;
const hour = 3600_000;
const setup: NodeSetup = {
  // As csi-sanity/run.ts has it.
  config: `
expansion: controller
attach: required
maxVolumesPerNode: 4
pools:
  default: { kind: lvm, volumeGroup: vg0, sickAfter: 10m }
`,
  pools: ['default'],
  disks: [{ name: 'first', sizeGiB: 4 }],
  prepare: 'lvm vgcreate --yes vg0 /dev/vdb',
};

test('csi-sanity, against a pool in a volume group', async (t) => {
  using scratch = new Scratch('sanity');
  await using started = await startNode(t, setup);
  const { node } = started;
  const words = [
    installCsiSanity(),
    `--csi.endpoint=${node.socketPath}`,
    `--csi.mountdir=${node.kubeletDirectory}/mount`,
    `--csi.stagingdir=${node.kubeletDirectory}/staging`,
    `--csi.testvolumesize=${64 * mebibyte}`,
    `--csi.testvolumeexpandsize=${96 * mebibyte}`,
    '--csi.testvolumemutableparameters=/data/mutable.yaml',
    '--csi.testnodevolumeattachlimit',
    '--ginkgo.json-report=/data/report.json',
    '--ginkgo.timeout=1h',
    '--ginkgo.no-color',
  ];
  await node.vm.run(`printf 'provisioning: thick\\nundelete: "0"\\n' >/data/mutable.yaml`);
  const { code, stderr, stdout } = await node.vm.attempt(`cd /data && ${words.join(' ')}`, { timeoutMs: hour });
  assert.equal(code, 0, `${stdout}\n${stderr}`);
  const report = scratch.join('report.json');
  writeFileSync(report, await node.vm.run('cat /data/report.json'));
  const specs = readSpecs(report);
  for (const line of reportLines(specs)) t.diagnostic(line);
  assert.deepEqual(tally(specs), modes.find(({ name }) => name === 'ext4')?.expected);
});
