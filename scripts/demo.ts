import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { formatBytes } from '../src/volume/size.ts';
import { DriverProcess, environmentFor } from '../test/support/driver.ts';
import { Scratch } from '../test/support/scratch.ts';
import { buildBundle } from './build.ts';
import { tellDelta } from './demo/delta.ts';
import { screen } from './demo/screen.ts';
import { DemoVolume } from './demo/volume.ts';
import { Usage } from './options.ts';

const gibibyte = 1n << 30n;

/** Volumes and snapshots through the CSI contract, and the operator's commands, with the driver as it is shipped. */
async function demo(scratch: Scratch, interrupted: AbortSignal): Promise<void> {
  const bundle = fileURLToPath(new URL('../dist/holdfast.mjs', import.meta.url));
  const command = [process.execPath, bundle];
  const step: Step = async (title, work) => {
    interrupted.throwIfAborted();
    await screen.step(title, work);
  };

  await step('build', async () => {
    const { sizeBytes } = await buildBundle(fileURLToPath(new URL('../dist', import.meta.url)));
    return `dist/holdfast.mjs, ${formatBytes(BigInt(sizeBytes))}`;
  });

  await using driver = DriverProcess.spawn(scratch, { command });
  try {
    await story(driver, step, scratch, (line) => holdfast(command, scratch, line));
  } catch (error) {
    if (!interrupted.aborted)
      screen.block(`The driver's last words:\n${driver.output().trim().split('\n').slice(-8).join('\n')}`);
    throw error;
  }
}

type Step = (title: string, work: () => Promise<string>) => Promise<void>;
/** What an operator types: the line, and what it printed. */
type Type = (line: string) => Promise<string>;

async function story(driver: DriverProcess, step: Step, scratch: Scratch, type: Type): Promise<void> {
  await step('start', async () => {
    const { firstProbeMs } = await driver.ready();
    return `first Probe after ${Math.round(firstProbeMs)} ms; ${describePool(scratch)}`;
  });
  using client = driver.connect();
  const fsType = mayGrowMountedExt4() ? 'ext4' : 'xfs';
  const volume = new DemoVolume(client, scratch, { name: 'data', sizeBytes: gibibyte, fsType });
  const copy = new DemoVolume(client, scratch, { name: 'copy', sizeBytes: 2n * gibibyte, fsType });
  const disk = new DemoVolume(client, scratch, { name: 'disk', sizeBytes: gibibyte / 4n, fsType: undefined });
  const bringUp = async (one: DemoVolume) => {
    await one.stage();
    await one.publish();
  };
  const takeDown = async (one: DemoVolume) => {
    await one.unpublish();
    await one.unstage();
  };
  let checksum = '';
  let snapshotId = '';

  await step('create', () => volume.create());
  await step('stage', () => volume.stage());
  await step('publish', () => volume.publish());
  await step('write', async () => {
    checksum = await volume.write();
    return `64Mi of random, synced  sha256 ${checksum.slice(0, 16)}…`;
  });
  await step('unpublish', () => volume.unpublish());
  await step('unstage', () => volume.unstage());
  await step('stage', () => volume.stage());
  await step('publish', () => volume.publish());
  await step('read', () => volume.check(checksum));
  await step('expand', () => volume.expand());
  await step('snapshot', async () => {
    snapshotId = await volume.cut('before the accident');
    return `${snapshotId}  of the volume in use`;
  });
  await step('accident', () => volume.lose());
  await step('restore', () => copy.create({ undelete: '24h' }, snapshotId));
  await step('read', async () => {
    await bringUp(copy);
    return `${await copy.check(checksum)}, beside the original`;
  });
  screen.block(await type('volumes'));

  await takeDown(copy);
  await step('delete', async () => `${await copy.delete()}; its class keeps it for 24h`);
  screen.block(`${await type('trash')}\n${await type(`trash restore ${copy.id}`)}`);
  await step('read', async () => {
    await bringUp(copy);
    return `${await copy.check(checksum)}, under the id that it had`;
  });

  await disk.create();
  await bringUp(disk);
  await step('delta', () => tellDelta(client, disk));

  await takeDown(volume);
  await step('delete', () => volume.delete());
  await step('clean up', async () => {
    for (const one of [copy, disk]) {
      await takeDown(one);
      await one.delete();
    }
    await client.controller.DeleteSnapshot({ snapshot_id: snapshotId });
    await type('trash purge --yes');
    return 'the other volumes, the snapshot and the trash are gone';
  });
  await step('stop', async () => {
    const { code, signal } = await driver.stop();
    if (code !== 0) throw new Error(`the driver ended with ${signal ?? `exit code ${code}`}`);
    return 'SIGTERM; sockets removed, pool let go';
  });
  await step('look', async () => {
    const sockets = [driver.socketPath, scratch.join('data', 'admin.sock')].filter((path) => existsSync(path));
    const left = [...scratch.mounts(), ...scratch.loops(), ...sockets];
    if (left.length > 0) throw new Error(`left behind: ${left.join(', ')}`);
    return 'no mount, no loop device, no socket left';
  });
}

function describePool(scratch: Scratch): string {
  const file = scratch.join('data', 'pools', 'default.img');
  return existsSync(file) ? 'pool: XFS in a backing file' : 'pool: a directory, reflink works';
}

/** Growing ext4 while mounted needs CAP_SYS_RESOURCE (24), which some machines withhold even from root. */
function mayGrowMountedExt4(): boolean {
  const effective = /^CapEff:\s*([0-9a-f]+)/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '0';
  return ((BigInt(`0x${effective}`) >> 24n) & 1n) === 1n;
}

/** What an operator would type beside the driver. */
async function holdfast([program = '', ...args]: readonly string[], scratch: Scratch, line: string): Promise<string> {
  const { stdout } = await promisify(execFile)(program, [...args, ...line.split(' ')], {
    env: environmentFor(scratch),
  });
  return `$ holdfast ${line}\n${stdout}`;
}

const usage =
  new Usage(`Makes a volume on your disk, and everything that can be done with it, in seconds; it leaves nothing behind. As root:
npm run demo -- [--help]
`);

async function main(): Promise<number> {
  usage.read({});
  if (process.getuid?.() !== 0) {
    screen.failure('The demo mounts filesystems, so it has to run as root: sudo npm run demo');
    return 1;
  }
  const interruption = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => interruption.abort(new Error(`${signal}: cleaning up`)));
  }
  // A pipe whose reader has gone, or a terminal that was closed: everything is cleaned up anyway.
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', () => interruption.abort(new Error('nobody reads the output: cleaning up')));
  }
  using scratch = new Scratch('demo');
  screen.heading('Holdfast: a volume, end to end', [`in ${scratch.path}, with no configuration at all`]);
  try {
    await demo(scratch, interruption.signal);
  } catch (error) {
    screen.failure(error instanceof Error ? error.message : String(error));
    return interruption.signal.aborted ? 130 : 1;
  }
  screen.closing('Nothing is left of all the demo made but dist/ and node_modules/. Next: npm test');
  return 0;
}

process.exitCode = await main();
