import { execFile } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { open, readFile, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { VolumeCapability } from '../src/csi/generated/types.ts';
import type { Draft } from '../src/csi/handler.ts';
import { formatBytes } from '../src/volume/size.ts';
import type { DriverClient } from '../test/support/client.ts';
import { DriverProcess, environmentFor } from '../test/support/driver.ts';
import { Scratch } from '../test/support/scratch.ts';
import { buildBundle } from './build.ts';
import { screen } from './demo/screen.ts';

const gibibyte = 1n << 30n;
const fileBytes = 64 << 20;

/** One volume's life through the CSI contract, with the driver as it is shipped. */
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
    await life(driver, step, scratch, () => holdfast(command, scratch, 'volumes'));
  } catch (error) {
    if (!interrupted.aborted)
      screen.block(`The driver's last words:\n${driver.output().trim().split('\n').slice(-8).join('\n')}`);
    throw error;
  }
}

type Step = (title: string, work: () => Promise<string>) => Promise<void>;

async function life(driver: DriverProcess, step: Step, scratch: Scratch, table: () => Promise<string>): Promise<void> {
  await step('start', async () => {
    const { firstProbeMs } = await driver.ready();
    return `first Probe after ${Math.round(firstProbeMs)} ms; ${describePool(scratch)}`;
  });
  using client = driver.connect();
  const volume = new DemoVolume(client, scratch);
  await step('create', () => volume.create());
  await step('stage', () => volume.stage());
  await step('publish', () => volume.publish());
  await step('write', () => volume.write());
  await step('unpublish', () => volume.unpublish());
  await step('unstage', () => volume.unstage());
  screen.block(await table());
  await step('stage', () => volume.stage());
  await step('publish', () => volume.publish());
  await step('read', () => volume.check());
  await step('expand', () => volume.expand());
  await step('read', () => volume.check());
  screen.block(await table());
  await step('unpublish', () => volume.unpublish());
  await step('unstage', () => volume.unstage());
  await step('delete', () => volume.delete());
  await step('stop', async () => {
    const { code, signal } = await driver.stop();
    if (code !== 0) throw new Error(`the driver ended with ${signal ?? `exit code ${code}`}`);
    return 'SIGTERM; socket removed, pool let go';
  });
  await step('look', async () => {
    const left = [
      ...scratch.mounts(),
      ...scratch.loops(),
      ...(existsSync(driver.socketPath) ? [driver.socketPath] : []),
    ];
    if (left.length > 0) throw new Error(`left behind: ${left.join(', ')}`);
    return 'no mount, no loop device, no socket left';
  });
}

/** A volume as a kubelet handles it. */
class DemoVolume {
  readonly #client: DriverClient;
  readonly #stagingPath: string;
  readonly #targetPath: string;
  readonly #fsType: string;
  #id = '';
  #checksum = '';

  constructor(client: DriverClient, scratch: Scratch) {
    this.#client = client;
    this.#stagingPath = scratch.join('kubelet', 'globalmount');
    this.#targetPath = scratch.join('kubelet', 'pod', 'mount');
    this.#fsType = mayGrowMountedExt4() ? 'ext4' : 'xfs';
  }

  get #capability(): Draft<VolumeCapability> {
    return { mount: { fs_type: this.#fsType }, access_mode: { mode: 'SINGLE_NODE_WRITER' } };
  }

  get #file(): string {
    return join(this.#targetPath, 'precious');
  }

  async create(): Promise<string> {
    const { volume } = await this.#client.controller.CreateVolume({
      name: 'pvc-demo',
      capacity_range: { required_bytes: gibibyte },
      volume_capabilities: [this.#capability],
    });
    if (volume === null) throw new Error('CreateVolume answered without a volume');
    this.#id = volume.volume_id;
    return `${volume.volume_id}  ${formatBytes(volume.capacity_bytes)}, formatted with ${this.#fsType}`;
  }

  async stage(): Promise<string> {
    mkdirSync(this.#stagingPath, { recursive: true });
    await this.#client.node.NodeStageVolume({
      volume_id: this.#id,
      staging_target_path: this.#stagingPath,
      volume_capability: this.#capability,
    });
    return `${this.#fsType} mounted at …/kubelet/globalmount`;
  }

  async publish(): Promise<string> {
    mkdirSync(join(this.#targetPath, '..'), { recursive: true });
    await this.#client.node.NodePublishVolume({
      volume_id: this.#id,
      staging_target_path: this.#stagingPath,
      target_path: this.#targetPath,
      volume_capability: this.#capability,
    });
    return 'bound to …/kubelet/pod/mount';
  }

  async write(): Promise<string> {
    const data = randomBytes(fileBytes);
    this.#checksum = createHash('sha256').update(data).digest('hex');
    const file = await open(this.#file, 'wx');
    try {
      await file.write(data);
      await file.sync();
    } finally {
      await file.close();
    }
    return `${formatBytes(BigInt(fileBytes))} random, synced  sha256 ${this.#checksum.slice(0, 16)}…`;
  }

  async check(): Promise<string> {
    const found = createHash('sha256')
      .update(await readFile(this.#file))
      .digest('hex');
    if (found !== this.#checksum) throw new Error(`the data changed: sha256 ${found}, was ${this.#checksum}`);
    return `the same data                 sha256 ${found.slice(0, 16)}…`;
  }

  async expand(): Promise<string> {
    const { capacity_bytes } = await this.#client.node.NodeExpandVolume({
      volume_id: this.#id,
      volume_path: this.#targetPath,
      staging_target_path: this.#stagingPath,
      capacity_range: { required_bytes: 2n * gibibyte },
      volume_capability: this.#capability,
    });
    const { blocks, bsize } = await statfs(this.#targetPath, { bigint: true });
    if (blocks * bsize < (gibibyte * 3n) / 2n) throw new Error(`the filesystem still has ${blocks * bsize} bytes`);
    return `to ${formatBytes(capacity_bytes)} while in use; the filesystem has ${formatBytes(blocks * bsize)}`;
  }

  async unpublish(): Promise<string> {
    await this.#client.node.NodeUnpublishVolume({ volume_id: this.#id, target_path: this.#targetPath });
    if (existsSync(this.#targetPath)) throw new Error(`${this.#targetPath} is still there`);
    return 'unmounted, target removed';
  }

  async unstage(): Promise<string> {
    await this.#client.node.NodeUnstageVolume({ volume_id: this.#id, staging_target_path: this.#stagingPath });
    return 'unmounted, loop device gone';
  }

  async delete(): Promise<string> {
    await this.#client.controller.DeleteVolume({ volume_id: this.#id });
    const { entries } = await this.#client.controller.ListVolumes({});
    if (entries.length > 0) throw new Error('the volume is still in the list');
    return 'gone from the list and from the disk';
  }
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
async function holdfast(
  [program = '', ...args]: readonly string[],
  scratch: Scratch,
  subcommand: string,
): Promise<string> {
  const { stdout } = await promisify(execFile)(program, [...args, subcommand], { env: environmentFor(scratch) });
  return `$ holdfast ${subcommand}\n${stdout}`;
}

async function main(): Promise<number> {
  if (process.getuid?.() !== 0) {
    screen.failure('The demo mounts filesystems, so it has to run as root: sudo npm run demo');
    return 1;
  }
  const interruption = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => interruption.abort(new Error(`${signal}: cleaning up`)));
  }
  using scratch = new Scratch('demo');
  screen.heading('Holdfast: a volume, end to end', [`in ${scratch.path}, with no configuration at all`]);
  try {
    await demo(scratch, interruption.signal);
  } catch (error) {
    screen.failure(error instanceof Error ? error.message : String(error));
    return interruption.signal.aborted ? 130 : 1;
  }
  screen.closing('The volume is gone, and so is all the demo made but dist/ and node_modules/. Next: npm test');
  return 0;
}

process.exitCode = await main();
