import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Usage } from '../../../scripts/options.ts';
import { freePort } from '../../cluster/harness/api-server.ts';
import { buildDriver } from '../../crash/bundle.ts';
import { volumeOn } from '../../fleet/support/fleet.ts';
import { everything, MovingFleet, movesOf, raw, started } from '../../fleet/support/moving-fleet.ts';
import { Viewer } from '../../fleet/support/viewer.ts';
import { eventually } from '../../support/eventually.ts';
import { TestVolume } from '../../support/life.ts';
import { median } from '../statistics.ts';

const usage =
  new Usage(`Measures how fast a volume full of random bytes moves between two drivers on this machine, beside dd | nc of the same bytes:
alternately, so that both meet the same disk. Needs nc (netcat-openbsd). Or a directory with many small files, beside cp -a of the same ones.
As root: npm run bench:move -- [options]
  --files      a directory with small files
  --quick      one round, for a first look
`);
const { values } = usage.read({
  options: { files: { type: 'boolean', default: false }, quick: { type: 'boolean', default: false } },
});
if (!values.files && spawnSync('nc', ['-h']).error !== undefined) {
  throw new Error('nc is missing: install netcat-openbsd.');
}
const rounds = values.quick ? 1 : 5;
const mebibytes = 1024;
const [directories, filesInEach, fileBytes] = [100, 200, 4096];
const fileCount = directories * filesInEach;

using command = await buildDriver();
await using fleet = await MovingFleet.start(command, 'none', values.files ? 'directory' : 'image');
const { controller = assert.fail('no controller') } = fleet;
for (const node of ['node-a', 'node-b']) await controller.logged('inventory complete', { node });
const viewer = new Viewer(fleet.api, 'operator', [...everything, 'volumes']);
const ratios: number[] = [];
const other = values.files ? 'cp -a' : 'dd | nc';
for (let round = 1; round <= rounds; round++) {
  const id = await (values.files ? withFiles : filled)(`data-${round}`);
  const floorMs = await (values.files ? byCopy : byPipe)();
  const movedMs = await byMove(id);
  await gone(id);
  ratios.push(floorMs / movedMs);
  const ratio = (floorMs / movedMs).toFixed(2);
  console.log(`round ${round}: moved with ${rate(movedMs)}, ${other} with ${rate(floorMs)}: ${ratio}`);
}
const amount = values.files ? `${fileCount} files of ${fileBytes} bytes` : `${mebibytes} MiB`;
console.log(`median: ${median(ratios).toFixed(2)} of ${other} (${amount}, ${rounds} rounds)`);

/** Makes a volume on the first node, and fills it with random bytes. */
async function filled(name: string): Promise<string> {
  using client = controller.connect();
  const request = {
    ...volumeOn('node-a', name),
    volume_capabilities: [raw],
    capacity_range: { required_bytes: BigInt(mebibytes) << 20n },
  };
  const id = (await client.controller.CreateVolume(request)).volume?.volume_id ?? '';
  const node = fleet.node('node-a');
  const volume = new TestVolume(node.scratch, name, raw);
  using driver = node.driver.connect();
  await volume.stage(driver, id);
  await volume.publish(driver, id);
  dd('if=/dev/urandom', `of=${volume.targetPath}`, 'conv=fsync');
  // For the pipe, on the same disk.
  dd(`if=${volume.targetPath}`, `of=${fleet.scratch.join('from')}`, 'conv=fsync');
  await volume.unpublish(driver, id);
  await volume.unstage(driver, id);
  return id;
}

/** Makes a directory on the first node with many small files, and another one with the same ones. */
async function withFiles(name: string): Promise<string> {
  using client = controller.connect();
  const capability = { mount: {}, access_mode: { mode: 'SINGLE_NODE_WRITER' } } as const;
  const request = {
    ...volumeOn('node-a', name),
    ...{ volume_capabilities: [capability], capacity_range: { required_bytes: 1n << 30n } },
  };
  const id = (await client.controller.CreateVolume(request)).volume?.volume_id ?? '';
  const node = fleet.node('node-a');
  const volume = new TestVolume(node.scratch, name, capability);
  using driver = node.driver.connect();
  await volume.stage(driver, id);
  await volume.publish(driver, id);
  for (let at = 0; at < directories; at++) {
    const directory = join(volume.targetPath, `${at}`);
    mkdirSync(directory);
    for (let file = 0; file < filesInEach; file++) writeFileSync(join(directory, `${file}`), randomBytes(fileBytes));
  }
  rmSync(fleet.scratch.join('from'), { recursive: true, force: true });
  execFileSync('cp', ['-a', volume.targetPath, fleet.scratch.join('from')]);
  await volume.unpublish(driver, id);
  await volume.unstage(driver, id);
  return id;
}

/** @returns milliseconds */
async function byMove(id: string): Promise<number> {
  dropCaches();
  const startedMs = performance.now();
  await started(fleet, viewer, id, 'node-b');
  for (;;) {
    const [move] = await movesOf(fleet, viewer, id);
    if (move !== undefined && move.state !== 'running') {
      assert.equal(move.state, 'done', move.reason ?? '');
      return performance.now() - startedMs;
    }
    // Each look is a call of the controller to both drivers, on the same processors.
    await delay(100);
  }
}

async function byCopy(): Promise<number> {
  const to = fleet.scratch.join('to');
  dropCaches();
  const startedMs = performance.now();
  execFileSync('cp', ['-a', fleet.scratch.join('from'), to]);
  execFileSync('sync', ['--file-system', to]);
  const tookMs = performance.now() - startedMs;
  rmSync(to, { recursive: true });
  return tookMs;
}

async function byPipe(): Promise<number> {
  const port = await freePort();
  const to = fleet.scratch.join('to');
  dropCaches();
  const receiver = shell(`nc -l 127.0.0.1 ${port} | dd of=${to} bs=1M iflag=fullblock conv=fsync`);
  await delay(300);
  const startedMs = performance.now();
  const sender = shell(`dd if=${fleet.scratch.join('from')} bs=1M | nc -N 127.0.0.1 ${port}`);
  for (const child of [sender, receiver]) assert.deepEqual(await once(child, 'close'), [0, null]);
  const tookMs = performance.now() - startedMs;
  rmSync(to);
  return tookMs;
}

async function gone(id: string): Promise<void> {
  await eventually(async () => {
    using client = controller.connect();
    await client.controller.DeleteVolume({ volume_id: id });
  });
}

function shell(script: string): ChildProcess {
  return spawn('bash', ['-o', 'pipefail', '-c', script], { stdio: 'ignore' });
}

function dd(...words: string[]): void {
  const { status, stderr } = spawnSync('dd', ['bs=1M', `count=${mebibytes}`, ...words], { encoding: 'utf8' });
  assert.equal(status, 0, stderr);
}

function dropCaches(): void {
  spawnSync('sh', ['-c', 'sync; echo 3 >/proc/sys/vm/drop_caches']);
}

function rate(tookMs: number): string {
  if (values.files) return `${Math.round((fileCount * 1000) / tookMs)} files in a second`;
  return `${Math.round((mebibytes * 1000) / tookMs)} MiB/s`;
}
