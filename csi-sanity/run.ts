/*
 * There is no list of specs to leave out: what does not apply, csi-sanity skips by itself, and the number of those is
 * checked.
 */
import { deepEqual } from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { buildBundle } from '../scripts/build.ts';
import { Usage } from '../scripts/options.ts';
import { cloudNamed, type TestCloud } from '../test/cloud/clouds.ts';
import type { FakeCloud } from '../test/cloud/fake-cloud.ts';
import { FakeMachines } from '../test/cloud/fake-machine.ts';
import { ApiDouble } from '../test/fleet/support/api-double.ts';
import { ControllerProcess } from '../test/fleet/support/controller-process.ts';
import { authorityIn } from '../test/fleet/support/fleet.ts';
import { assertNothingLeft, DriverProcess } from '../test/support/driver.ts';
import { eventually } from '../test/support/eventually.ts';
import { ProgramDirectory } from '../test/support/programs.ts';
import { Scratch } from '../test/support/scratch.ts';
import { type Mode, modes } from './expectations.ts';
import { csiSanityVersion, installCsiSanity } from './install.ts';
import { readSpecs, reportLines, type Spec, tally } from './report.ts';

/** Aligned, and above the smallest xfs; images are sparse. */
const volumeBytes = 512n << 20n;
const expandedBytes = 768n << 20n;

/** A run takes seconds; a driver that hangs must not take the whole time that CI has. */
const timeout = '5m';

let interrupted = false;
let running: ChildProcess | undefined;
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  // Without csi-sanity the run fails, and what it used is stopped and removed on the way out.
  process.on(signal, () => {
    interrupted = true;
    running?.kill();
  });
}

const usage =
  new Usage(`Builds the driver, starts it in a directory of its own, and runs csi-sanity against it, once for each mode, or for those that are
named, or all others with --except. As root: npm run sanity -- [--except] [mode]...
${modes.map(({ name }) => `  ${JSON.stringify(name)}`).join('\n')}
`);
const { positionals: named, values } = usage.read({
  options: { except: { type: 'boolean', default: false } },
  allowPositionals: true,
});
usage.requireKnown(named, (name) => modes.some((mode) => mode.name === name), 'there is no mode');

const csiSanity = installCsiSanity();
using bundle = new Scratch('bundle');
const { file } = await buildBundle(bundle.path);
let failures = 0;
const total = { passed: 0, failed: 0 };
for (const mode of modes.filter(({ name }) => named.length === 0 || named.includes(name) !== values.except)) {
  if (interrupted) break;
  const problem = await runMode(mode, [process.execPath, file]).then(
    () => undefined,
    (error: unknown) => (error instanceof Error ? error.message : String(error)),
  );
  if (problem === undefined) continue;
  failures++;
  console.error(`\nsanity: ${mode.name} FAILED: ${problem}`);
}
// A mode whose specs passed may have failed by what it left behind.
console.log(`\ncsi-sanity: ${total.passed} passed, ${Math.max(total.failed, failures)} failed`);
process.exitCode = failures === 0 && !interrupted ? 0 : 1;

async function runMode(mode: Mode, command: readonly string[]): Promise<void> {
  using scratch = new Scratch('sanity');
  if (mode.location === 'directories') makeXfs(scratch);
  if (mode.location === 'program') mkdirSync(scratch.join('base', 'volumes'), { recursive: true });
  {
    await using api = await ApiDouble.start();
    const cloud = mode.location === 'cloud' ? cloudNamed(mode.name) : undefined;
    await using fake = cloud && (await startCloud(cloud));
    await using controller =
      mode.isBehindController === true
        ? await ControllerProcess.start(scratch, api, 'controller', command, { HOLDFAST_ATTACH: mode.attach })
        : undefined;
    using programs = mode.location === 'program' ? new ProgramDirectory() : undefined;
    const environment = {
      ...(controller === undefined ? {} : linkTo(controller, api, scratch)),
      ...(programs === undefined ? {} : { HOLDFAST_SIDE: 'both' }),
      ...(cloud === undefined || fake === undefined ? {} : environmentFor(cloud, fake, scratch)),
    };
    const config = configFor(mode, scratch, { cloud: fake?.url ?? '', program: programs?.example('storage') ?? '' });
    await using driver = await DriverProcess.start(scratch, { command, config, environment });
    // Until then ListVolumes is UNAVAILABLE, which csi-sanity takes for a failure.
    await controller?.logged('inventory complete', { node: 'node-1' });
    const startedMs = performance.now();
    const specs = await sanity(mode, driver, scratch, controller?.socketPath ?? driver.socketPath);
    const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
    console.log(`\ncsi-sanity ${csiSanityVersion}, ${mode.name}, ${specs.length} specs in ${seconds} s:`);
    for (const line of reportLines(specs)) console.log(line);
    const counts = tally(specs);
    total.passed += counts.passed;
    total.failed += counts.failed;
    deepEqual(counts, mode.expected, 'compare with csi-sanity/expectations.ts: this is not what it must come to');
    if (fake !== undefined) deepEqual([fake.volumes.size, fake.snapshots.size], [0, 0], 'left in the cloud');
    const pool = poolOf(mode, driver, scratch);
    for (const directory of ['volumes', 'snapshots', 'groups', 'tmp', 'trash']) {
      if (pool === undefined) break;
      // What was deleted is unlinked behind the answer.
      await eventually(() => deepEqual(readdirSync(join(pool, directory)), [], `left in the pool's ${directory}`));
    }
    const left = readdirSync(driver.kubeletDirectory, { recursive: true, encoding: 'utf8' });
    // Programs mount below a directory of the driver, which stays.
    const ofVolumes = left.filter(
      (path) => mode.location !== 'program' || !/^plugins(\/[^/]+(\/programs)?)?$/.test(path),
    );
    deepEqual(ofVolumes, [], "something was left in the kubelet's directory");
  }
  if (mode.location === 'directories') execFileSync('umount', [scratch.join('xfs')]);
  await assertNothingLeft(scratch);
}

/** A fake of a cloud whose one machine is this one. */
async function startCloud(cloud: TestCloud): Promise<FakeCloud> {
  const fake = await cloud.start();
  fake.instance(cloud.machines[0]);
  return fake;
}

function environmentFor(cloud: TestCloud, fake: FakeCloud, scratch: Scratch): Record<string, string> {
  return {
    ...cloud.environment(scratch, fake.url),
    HOLDFAST_CLOUD: cloud.name,
    HOLDFAST_TEST_DISK_LINKS: FakeMachines.at(fake, scratch.join('cloud')).links(cloud.machines[0]),
    HOLDFAST_SIDE: 'both',
  };
}

/** What a driver is told to link to the controller: it is the one node there is. */
function linkTo(controller: ControllerProcess, api: ApiDouble, scratch: Scratch): Record<string, string> {
  api.known.csiNodes.add('node-1');
  api.changed();
  const [authority, token] = [scratch.join('controller.crt'), scratch.join('token')];
  writeFileSync(authority, authorityIn(api));
  writeFileSync(token, api.token({ node: 'node-1' }));
  return {
    HOLDFAST_CONTROLLER: `127.0.0.1:${controller.port}`,
    HOLDFAST_CONTROLLER_CA: authority,
    HOLDFAST_CONTROLLER_TOKEN: token,
  };
}

/** A filesystem that somebody else looks after, at `xfs`. */
function makeXfs(scratch: Scratch): void {
  const [image, mountPoint] = [scratch.join('xfs.img'), scratch.join('xfs')];
  writeFileSync(image, '');
  truncateSync(image, 16 * 2 ** 30);
  execFileSync('mkfs.xfs', ['-q', image]);
  mkdirSync(mountPoint);
  execFileSync('mount', ['-o', 'loop', image, mountPoint]);
}

function poolOf({ location }: Mode, driver: DriverProcess, scratch: Scratch): string | undefined {
  switch (location) {
    case 'cloud':
      return undefined;
    case 'program':
      return scratch.join('records');
    case 'file':
      return join(driver.dataDirectory, 'pools', 'default');
    case 'directory':
      return scratch.join('pool');
    case 'directories':
      return scratch.join('xfs', 'pool');
  }
}

function configFor(
  { attach, defaultFilesystem, location, name }: Mode,
  scratch: Scratch,
  from: { readonly cloud: string; readonly program: string },
): string {
  const places = {
    file: `{ file: ${scratch.join('pool.img')}, defaultFilesystem: ${defaultFilesystem} }`,
    directory: `{ directory: ${scratch.join('pool')}, defaultFilesystem: ${defaultFilesystem} }`,
    directories: `{ kind: directory, path: ${scratch.join('xfs', 'pool')} }`,
    cloud: `{ kind: ${name}, poolId: sanity, zone: eu-test-1a, endpoint: '${from.cloud}' }`,
    program: `{ kind: exec, program: storage, records: ${scratch.join('records')}, options: { base: ${scratch.join('base')} } }`,
  };
  return [
    ...(location === 'cloud' || location === 'program' ? [] : ['expansion: controller']),
    ...(location === 'program'
      ? ['programs:', `  storage: { path: ${from.program}, protocol: json, snapshots: true }`]
      : []),
    `attach: ${attach}`,
    // csi-sanity uses so many and one more; without a limit it would leave that spec out (controller.go:783).
    'maxVolumesPerNode: 4',
    'pools:',
    `  default: ${places[location]}`,
    '',
  ].join('\n');
}

/** Runs csi-sanity to its end. Its output is shown only when it has failures to tell of. */
async function sanity(
  { accessType, location }: Mode,
  driver: DriverProcess,
  scratch: Scratch,
  controllerSocketPath: string,
): Promise<Spec[]> {
  const report = scratch.join('report.json');
  const mutableParameters = scratch.join('mutable.yaml');
  // A directory takes its blocks as they are written.
  const provisioning = ['file', 'directory'].includes(location) ? 'provisioning: thick\n' : '';
  writeFileSync(mutableParameters, `${provisioning}undelete: "0"\n`);
  const child = spawn(
    csiSanity,
    [
      `--csi.endpoint=${driver.socketPath}`,
      `--csi.controllerendpoint=${controllerSocketPath}`,
      `--csi.mountdir=${driver.kubeletDirectory}/mount`,
      `--csi.stagingdir=${driver.kubeletDirectory}/staging`,
      `--csi.testvolumeaccesstype=${accessType}`,
      `--csi.testvolumesize=${location === 'cloud' ? 2n << 30n : volumeBytes}`,
      `--csi.testvolumeexpandsize=${location === 'cloud' ? 3n << 30n : expandedBytes}`,
      `--csi.testvolumemutableparameters=${mutableParameters}`,
      '--csi.testnodevolumeattachlimit',
      `--ginkgo.json-report=${report}`,
      `--ginkgo.timeout=${timeout}`,
      '--ginkgo.no-color',
    ],
    { stdio: ['ignore', 'pipe', 'pipe'], cwd: scratch.path },
  );
  running = child;
  const output: string[] = [];
  child.stdout.on('data', (chunk: Buffer) => output.push(chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => output.push(chunk.toString()));
  const [code] = await once(child, 'close');
  if (code !== 0) console.log(`${output.join('')}\nThe driver's log:\n${driver.output()}`);
  return readSpecs(report);
}
