import {
  closeSync,
  fsyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  renameSync,
  rmdirSync,
  statfsSync,
  unlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { mkfsCommand } from '../../src/command/mkfs.ts';
import { superblockRange } from '../../src/filesystems/superblock.ts';
import { attachLoop, bindMount, lookAt, mountFilesystem, openAlone, runProgram, unmount } from './floor-calls.ts';
import type { FloorPlan, FloorReport } from './floor-process.ts';
import { type Rpc, rpcs, volumeBytes } from './life.ts';

/**
 * The raw floor, a process of its own: a volume's life in the fewest system calls that keep every promise the driver
 * makes, one after the other, in one thread. Durable before it is answered: the image after mkfs, the record, the
 * directory they are in, and each directory in which a name came or went. Asked before anything is done: whether there
 * is room, what lies at a path and whose it is, whether anybody else has the image, whether the filesystem is well. Noted:
 * what the volume was staged with.
 */

let lifeNumber = 0;

function makeFloor(plan: FloorPlan): () => number[] {
  const tmp = join(plan.poolDirectory, 'tmp');
  const volumes = join(plan.poolDirectory, 'volumes');
  const trash = join(plan.poolDirectory, 'trash');
  for (const directory of [plan.poolDirectory, tmp, volumes, trash]) mkdirSync(directory, { recursive: true });
  const staging = join(plan.targetDirectory, 'staging');
  const target = join(plan.targetDirectory, 'target');
  mkdirSync(staging, { recursive: true });

  const note = join(plan.targetDirectory, 'note.json');
  const superblock = Buffer.alloc(superblockRange.ext4.lengthBytes);

  const { blockSizeBytes } = plan.loop;
  const mkfsArguments = (path: string) =>
    mkfsCommand({ path, fsType: 'ext4', sizeBytes: BigInt(volumeBytes), blockSizeBytes, extraArguments: [] }).args;

  function create(id: string): void {
    statfsSync(tmp);
    const draft = join(tmp, id);
    mkdirSync(draft, { mode: 0o700 });
    const image = openSync(join(draft, 'data'), 'wx', 0o600);
    ftruncateSync(image, volumeBytes);
    runProgram(plan.mkfsPath, mkfsArguments(join(draft, 'data')));
    fsyncSync(image);
    closeSync(image);
    const record = openSync(join(draft, 'volume.json'), 'wx', 0o600);
    writeSync(record, plan.record);
    fsyncSync(record);
    closeSync(record);
    syncDirectory(draft);
    renameSync(draft, join(volumes, id));
    syncDirectory(volumes);
  }

  function stage(id: string): void {
    lookAt(staging);
    readdirSync(staging);
    const image = openAlone(join(volumes, id, 'data'));
    writeFileSync(`${note}.draft`, plan.record);
    renameSync(`${note}.draft`, note);
    const loop = attachLoop(image, { label: id, ...plan.loop });
    readSync(loop.fd, superblock, 0, superblock.length, superblockRange.ext4.offsetBytes);
    mountFilesystem('ext4', loop.devicePath, staging);
    closeSync(loop.fd);
  }

  function publish(): void {
    lookAt(staging);
    readMountTable();
    mkdirSync(target, { mode: 0o750 });
    bindMount(staging, target);
  }

  function unpublish(): void {
    lookAt(target);
    readMountTable();
    unmount(target);
    rmdirSync(target);
  }

  function unstage(): void {
    lookAt(staging);
    readMountTable();
    unmount(staging);
    unlinkSync(note);
  }

  function remove(id: string): void {
    closeSync(openAlone(join(volumes, id, 'data')));
    const removed = join(trash, id);
    renameSync(join(volumes, id), removed);
    syncDirectory(volumes);
    syncDirectory(trash);
    unlinkSync(join(removed, 'data'));
    unlinkSync(join(removed, 'volume.json'));
    rmdirSync(removed);
  }

  const steps: Readonly<Record<Rpc, (id: string) => void>> = {
    CreateVolume: create,
    NodeStageVolume: stage,
    NodePublishVolume: publish,
    NodeUnpublishVolume: unpublish,
    NodeUnstageVolume: unstage,
    DeleteVolume: remove,
  };
  return () => {
    const id = `vol-floor${++lifeNumber}`;
    return rpcs.map((rpc) => {
      const start = performance.now();
      steps[rpc](id);
      return performance.now() - start;
    });
  };
}

function readMountTable(): void {
  readFileSync('/proc/self/mountinfo', 'utf8');
}

function syncDirectory(path: string): void {
  const fd = openSync(path, 'r');
  fsyncSync(fd);
  closeSync(fd);
}

const plan = JSON.parse(process.argv[2] ?? '{}') as FloorPlan;
const live = makeFloor(plan);

process.on('message', (lives: number) => {
  const start = performance.now();
  const stepMs = Array.from({ length: lives }, live);
  const report: FloorReport = { elapsedMs: performance.now() - start, stepMs };
  process.send?.(report);
});
// Whoever started this is gone.
process.on('disconnect', () => process.exit());
process.send?.('ready');
