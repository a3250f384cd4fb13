import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import type { TestContext } from 'node:test';
import { modes } from '../../../csi-sanity/expectations.ts';
import { installCsiSanity } from '../../../csi-sanity/install.ts';
import { readSpecs, reportLines, tally } from '../../../csi-sanity/report.ts';
import { Scratch } from '../../support/scratch.ts';
import { type NodeSetup, startNode } from './start-node.ts';

const mebibyte = 1 << 20;
const hour = 3600_000;

export interface SanityRun extends Pick<NodeSetup, 'prepare'> {
  /** The section of its one pool. */
  readonly pool: string;
  /** Files in /data that csi-sanity is given: by the names of its options, without `csi.`. */
  readonly files?: Readonly<Record<string, string>>;
}

/** csi-sanity in a virtual machine with a blank disk, /dev/vdb: all of it passes, as csi-sanity/expectations.ts has it. */
export async function passesSanity(t: TestContext, { files = {}, pool, prepare }: SanityRun): Promise<void> {
  using scratch = new Scratch('sanity');
  const config = `
expansion: controller
attach: required
maxVolumesPerNode: 4
pools:
  default: ${pool}
`;
  const disks = [{ name: 'first', sizeGiB: 4 }];
  await using started = await startNode(t, { config, pools: ['default'], disks, ...(prepare && { prepare }) });
  const { node } = started;
  const given = { testvolumemutableparameters: 'provisioning: thick\nundelete: "0"\n', ...files };
  for (const [name, content] of Object.entries(given)) {
    await node.vm.run(`cat >/data/${name}.yaml <<'END'\n${content}END`);
  }
  const words = [
    installCsiSanity(),
    `--csi.endpoint=${node.socketPath}`,
    `--csi.mountdir=${node.kubeletDirectory}/mount`,
    `--csi.stagingdir=${node.kubeletDirectory}/staging`,
    `--csi.testvolumesize=${64 * mebibyte}`,
    `--csi.testvolumeexpandsize=${96 * mebibyte}`,
    ...Object.keys(given).map((name) => `--csi.${name}=/data/${name}.yaml`),
    '--csi.testnodevolumeattachlimit',
    '--ginkgo.json-report=/data/report.json',
    '--ginkgo.timeout=1h',
    '--ginkgo.no-color',
  ];
  const { code, stderr, stdout } = await node.vm.attempt(`cd /data && ${words.join(' ')}`, { timeoutMs: hour });
  assert.equal(code, 0, `${stdout}\n${stderr}`);
  const report = scratch.join('report.json');
  writeFileSync(report, await node.vm.run('cat /data/report.json'));
  const specs = readSpecs(report);
  for (const line of reportLines(specs)) t.diagnostic(line);
  assert.deepEqual(tally(specs), modes.find(({ name }) => name === 'ext4')?.expected);
}
