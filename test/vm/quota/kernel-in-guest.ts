/**
 * Runs in the virtual machine: what the kernel's project quota does with the directory of a filesystem that has it.
 * node kernel-in-guest.ts DIRECTORY
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, readdir, rename, rm, statfs, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { openReadOnly } from '../../../src/kernel/call/descriptor.ts';
import { DiskQueue } from '../../../src/kernel/call/disk-queue.ts';
import { finishUnlinks } from '../../../src/kernel/file/filesystem.ts';
import { readProject, writeProject } from '../../../src/kernel/file/project-id.ts';
import { ProjectQuota } from '../../../src/kernel/file/project-quota.ts';

const [, , directory = ''] = process.argv;
const queue = new DiskQueue('quota', 4);
const run = promisify(execFile);
const mebibyte = 1n << 20n;
const limit = { bytes: 8n * mebibyte, inodes: 50n };
const id = 0x48010001;

await using root = await openReadOnly(queue, directory);
const quota = new ProjectQuota(queue, root);
assert.deepEqual(await quota.state(), { isAccounted: true, isEnforced: true });
await checkLimits();
await checkRenames();

/** As nobody: CAP_SYS_RESOURCE lets root pass the limits of ext4. */
function asNobody(...command: readonly string[]): Promise<unknown> {
  return run('setpriv', ['--reuid', '65534', '--regid', '65534', '--clear-groups', ...command]);
}

async function checkLimits(): Promise<void> {
  assert.deepEqual(await quota.usage(id), { id, usedBytes: 0n, usedInodes: 0n, limits: { bytes: 0n, inodes: 0n } });
  assert.equal(await quota.find(id), undefined);
  const path = join(directory, 'limited');
  await mkdir(path, { mode: 0o777 });
  await run('chmod', ['777', path]);
  {
    await using volume = await openReadOnly(queue, path);
    await writeProject(queue, volume, { id, isInherited: true });
    assert.deepEqual(await readProject(queue, volume), { id, isInherited: true });
  }
  await quota.limit(id, limit);
  await asNobody('dd', 'if=/dev/zero', `of=${path}/fits`, 'bs=1M', 'count=7');
  await assert.rejects(asNobody('dd', 'if=/dev/zero', `of=${path}/too-much`, 'bs=1M', 'count=7'), /No space|quota/);
  const full = await quota.find(id);
  assert.ok(full !== undefined);
  assert.deepEqual(full.limits, limit);
  assert.ok(full.usedBytes > 7n * mebibyte && full.usedBytes <= limit.bytes, `${full.usedBytes}`);
  assert.equal(full.usedInodes, 3n);
  const { bsize, blocks, bavail } = await statfs(path, { bigint: true });
  assert.equal(bsize * blocks, limit.bytes, 'what df shows is the limit');
  assert.ok(bsize * bavail < mebibyte);
  await quota.limit(id, { ...limit, bytes: 16n * mebibyte });
  await asNobody('dd', 'if=/dev/zero', `of=${path}/more`, 'bs=1M', 'count=7');
  await asNobody('mkdir', ...Array.from({ length: 45 }, (_, index) => `${path}/${index}`));
  await assert.rejects(
    asNobody('mkdir', ...Array.from({ length: 5 }, (_, index) => `${path}/x${index}`)),
    /No space|quota/,
  );
  await rm(path, { recursive: true });
  await quota.limit(id, { bytes: 0n, inodes: 0n });
  await gone();
}

/** What is unlinked counts until nobody has it open any more, and on XFS for a moment longer. */
async function gone(): Promise<void> {
  const giveUpAt = performance.now() + 60_000;
  while ((await quota.find(id)) !== undefined) {
    assert.ok(performance.now() < giveUpAt, 'a project that has nothing is still known');
    await finishUnlinks(queue, directory);
  }
}

/** What the pool's renames depend on: only a directory that hands its project on refuses what is of another one. */
async function checkRenames(): Promise<void> {
  const [volume, outside] = [join(directory, 'volume'), join(directory, 'outside')];
  await mkdir(join(volume, 'data'), { recursive: true });
  await mkdir(outside);
  await writeFile(join(outside, 'file'), '');
  {
    await using data = await openReadOnly(queue, join(volume, 'data'));
    await writeProject(queue, data, { id, isInherited: true });
  }
  await writeFile(join(volume, 'data', 'file'), '');
  await truncate(join(volume, 'data', 'file'), 4096);
  await assert.rejects(rename(join(outside, 'file'), join(volume, 'data', 'other')), { code: 'EXDEV' });
  await rename(volume, join(outside, 'moved'));
  await rename(join(outside, 'moved', 'data'), join(outside, 'data'));
  assert.deepEqual((await readdir(join(outside, 'data'))).sort(), ['file']);
  await rm(outside, { recursive: true });
  await gone();
}
console.log('project quota does what it should');
