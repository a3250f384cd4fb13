import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import type { TestContext } from 'node:test';
import { modes } from '../../../csi-sanity/expectations.ts';
import { installCsiSanity } from '../../../csi-sanity/install.ts';
import { readSpecs, reportLines, type Tally, tally } from '../../../csi-sanity/report.ts';
import { Scratch } from '../../support/scratch.ts';
import type { GuestNode } from './guest-node.ts';
import { type NodeSetup, startNode } from './start-node.ts';

const mebibyte = 1 << 20;
const hour = 3600_000;

export interface SanityRun extends Pick<NodeSetup, 'prepare'>, Partial<Pick<NodeSetup, 'disks'>> {
  /** The section of its one pool. */
  readonly pool: string;
  /** Files in /data that csi-sanity is given: by the names of its options, without `csi.`. */
  readonly files?: Readonly<Record<string, string>>;
  /** Of its volumes, and what they are expanded to. */
  readonly sizeMebibytes?: number;
  readonly expandedMebibytes?: number;
  /** Specs that are left out, by all of their words; none unless it is said why. */
  readonly leftOut?: readonly string[];
  /** Resolves when the pool is as it must be for the specs. */
  readonly ready?: (node: GuestNode) => Promise<void>;
  /** What it must come to; all of it passes unless it says otherwise. */
  readonly expected?: Tally | undefined;
}

const everything = modes.find(({ name }) => name === 'ext4')?.expected;

/** csi-sanity in a virtual machine with blank disks, /dev/vdb alone unless it says others. */
export async function passesSanity(t: TestContext, run: SanityRun): Promise<void> {
  const { expected = everything, files = {}, leftOut = [], pool, prepare } = run;
  const { sizeMebibytes = 64, expandedMebibytes = 96 } = run;
  using scratch = new Scratch('sanity');
  const config = `
expansion: controller
attach: required
maxVolumesPerNode: 4
pools:
  default: ${pool}
`;
  const { disks = [{ name: 'first', sizeGiB: 4 }] } = run;
  await using started = await startNode(t, { config, pools: ['default'], disks, ...(prepare && { prepare }) });
  const { node } = started;
  await run.ready?.(node);
  const given = { testvolumemutableparameters: 'provisioning: thick\nundelete: "0"\n', ...files };
  for (const [name, content] of Object.entries(given)) {
    await node.vm.run(`cat >/data/${name}.yaml <<'END'\n${content}END`);
  }
  const words = [
    installCsiSanity(),
    `--csi.endpoint=${node.socketPath}`,
    `--csi.mountdir=${node.kubeletDirectory}/mount`,
    `--csi.stagingdir=${node.kubeletDirectory}/staging`,
    `--csi.testvolumesize=${sizeMebibytes * mebibyte}`,
    `--csi.testvolumeexpandsize=${expandedMebibytes * mebibyte}`,
    ...Object.keys(given).map((name) => `--csi.${name}=/data/${name}.yaml`),
    '--csi.testnodevolumeattachlimit',
    '--ginkgo.json-report=/data/report.json',
    '--ginkgo.timeout=1h',
    ...leftOut.map((text) => `--ginkgo.skip='${text.replaceAll(/[[\]()]/g, String.raw`\$&`)}$'`),
    '--ginkgo.no-color',
  ];
  const { code, stderr, stdout } = await node.vm.attempt(`cd /data && ${words.join(' ')}`, { timeoutMs: hour });
  assert.equal(code, 0, `${stdout}\n${stderr}`);
  const report = scratch.join('report.json');
  writeFileSync(report, await node.vm.run('cat /data/report.json'));
  const specs = readSpecs(report);
  for (const line of reportLines(specs)) t.diagnostic(line);
  assert.deepEqual(tally(specs), expected);
}
