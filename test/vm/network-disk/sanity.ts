import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import type { TestContext } from 'node:test';
import { installCsiSanity } from '../../../csi-sanity/install.ts';
import { readSpecs, reportLines, type Tally, tally } from '../../../csi-sanity/report.ts';
import { buildBundle } from '../../../scripts/build.ts';
import { Scratch } from '../../support/scratch.ts';
import { VolatileDisk } from '../disk/volatile-disk.ts';
import { bundlePrograms } from '../machine/bundle.ts';
import { bootVirtualMachine, type VirtualMachine } from '../machine/virtual-machine.ts';
import type { GatewayPlan } from './sanity-gateway.ts';

const hour = 3600_000;
/** As target.sh of both kinds makes them; they grow once. */
const sizeBytes = 320 * 2 ** 20;

const controller = 'Controller Service [Controller Server]';
const makesNone = 'the kind makes and deletes no volumes: PersistentVolumes name them';
const noRecords = 'a home without pools has no record of a volume, nor a snapshot';
const knowsNone = 'any text may be the handle of a volume that a PersistentVolume names';

/** Specs that are left out, or all of a part, each with its reason. */
const leftOut: Readonly<Record<string, string>> = {
  [`${controller} CreateVolume`]: makesNone,
  [`${controller} DeleteVolume`]: makesNone,
  [`${controller} ListVolumes`]: noRecords,
  ...Object.fromEntries(
    ['CreateSnapshot', 'DeleteSnapshot', 'GetSnapshot', 'ListSnapshots', 'ModifyVolume'].map((name) => [
      `${name} [Controller Server]`,
      noRecords,
    ]),
  ),
  'GroupController Service': noRecords,
  [`${controller} ValidateVolumeCapabilities should return appropriate values`]:
    'csi-sanity does not pass the volume_context on, which alone says what the volume is',
  [`${controller} ControllerPublishVolume should fail when the volume is already published but is incompatible`]:
    'Kubernetes keeps the VolumeAttachments; the home has no record of them',
  [`${controller} ValidateVolumeCapabilities should fail when the requested volume does not exist`]: knowsNone,
  [`${controller} ControllerPublishVolume should fail when the volume does not exist`]: knowsNone,
  [`${controller} ControllerPublishVolume should fail when the node does not exist`]:
    'a home knows no nodes: only Kubernetes can say that there is none of this name',
};

export interface DiskSanityRun {
  /** A command of the shell that makes what `disks` names. */
  readonly prepare: (vm: VirtualMachine) => string;
  readonly disks: GatewayPlan['disks'];
  readonly expected: Tally;
  /** The driver's name; left out: that of disks. */
  readonly driverName?: string;
  /** Secrets of csi-sanity. */
  readonly secrets?: string;
}

/** csi-sanity against home and node service of a kind whose disks exist already, in a virtual machine. */
export async function passesDiskSanity(
  t: TestContext,
  { disks, driverName = 'disks.holdfast.csi.dev', expected, prepare, secrets }: DiskSanityRun,
): Promise<void> {
  using scratch = new Scratch('sanity');
  using disk = new VolatileDisk(scratch, { name: 'target', sizeBytes: 2 * 2 ** 30 });
  const { file } = await buildBundle(scratch.join('bundle'));
  const programs = await bundlePrograms('network-disk', ['sanity-gateway']);
  await using vm = await bootVirtualMachine({ scratch, disks: [disk] });
  await vm.run('mkfs.ext4 -q /dev/vda && mkdir -p /target && mount /dev/vda /target');
  await vm.run(prepare(vm));
  const run = '/run/sanity';
  const socket = (name: string) => `${run}/${name}/csi.sock`;
  await vm.run(`mkdir -p ${run}/home ${run}/node ${run}/gateway ${run}/kubelet/plugins ${run}/kubelet/pods`);
  const config = scratch.join('home.yaml');
  writeFileSync(config, 'attach: required\npools: {}\n');
  const driver = (side: 'home' | 'node', more: string) =>
    vm.start(
      `env HOLDFAST_SIDE=${side} HOLDFAST_DRIVER_NAME=${driverName} HOLDFAST_NODE_ID=node-1 CSI_ENDPOINT=unix://${socket(side)} HOLDFAST_DATA=${run}/${side}/data ${more} ${process.execPath} ${file} serve`,
      scratch.join(`${side}.log`),
    );
  const started = [driver('home', `HOLDFAST_CONFIG=${config}`), driver('node', `HOLDFAST_KUBELET_DIR=${run}/kubelet`)];
  const plan: GatewayPlan = {
    socket: socket('gateway'),
    home: socket('home'),
    node: socket('node'),
    disks: [...disks],
  };
  writeFileSync(scratch.join('gateway.json'), JSON.stringify(plan));
  const gateway = `${process.execPath} ${programs}sanity-gateway.mjs ${scratch.join('gateway.json')}`;
  started.push(vm.start(gateway, scratch.join('gateway.log')));
  const waits = Object.values(['home', 'node', 'gateway']).map((name) => `[ -S ${socket(name)} ]`);
  await vm.run(`until ${waits.join(' && ')}; do sleep 0.5; done`);
  const given = secrets === undefined ? [] : [`--csi.secrets=${scratch.join('secrets.yaml')}`];
  if (secrets !== undefined) writeFileSync(scratch.join('secrets.yaml'), secrets);
  const words = [
    installCsiSanity(),
    `--csi.endpoint=${socket('gateway')}`,
    `--csi.mountdir=${run}/kubelet/mount`,
    `--csi.stagingdir=${run}/kubelet/staging`,
    `--csi.testvolumesize=${sizeBytes}`,
    // No target grows here.
    `--csi.testvolumeexpandsize=${sizeBytes}`,
    ...given,
    `--ginkgo.json-report=${run}/report.json`,
    '--ginkgo.timeout=1h',
    ...Object.keys(leftOut).map((text) => `--ginkgo.skip='${text.replaceAll(/[[\]()]/g, String.raw`\$&`)}'`),
    '--ginkgo.no-color',
  ];
  const { code, stderr, stdout } = await vm.attempt(`cd ${run} && ${words.join(' ')}`, { timeoutMs: hour });
  const said = () => started.map((each) => each.lastWords()).join('\n');
  assert.equal(code, 0, `${stdout}\n${stderr}\n${said()}`);
  const report = scratch.join('report.json');
  writeFileSync(report, await vm.run(`cat ${run}/report.json`));
  const specs = readSpecs(report);
  for (const line of reportLines(specs)) t.diagnostic(line);
  for (const [text, reason] of Object.entries(leftOut)) t.diagnostic(`left out: ${text}: ${reason}`);
  assert.deepEqual(tally(specs), expected);
  const left = await vm.run(
    `grep ' ${run}/kubelet' /proc/mounts; ls /sys/class/iscsi_session /sys/class/nvme 2>/dev/null | grep -E '^(session|nvme)[0-9]'; find ${run}/node/data -name '*.json' -size +0 ! -name nvme-host.json; pgrep -xa glusterfs; true`,
  );
  assert.equal(left, '', 'something was left on the node');
}
