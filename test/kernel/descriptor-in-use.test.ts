import assert from 'node:assert/strict';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { describe, type TestContext, test } from 'node:test';
import { openFile } from '../../src/kernel/call/descriptor.ts';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { useWorkerThreads } from '../../src/kernel/call/workers.ts';
import { resizeFile } from '../../src/kernel/file/file.ts';
import { openDirectory, removeDirectoryAt } from '../../src/kernel/file/path.ts';
import { unmountAt } from '../../src/kernel/mount/mount.ts';
import { readMountTable } from '../../src/kernel/mount/mount-table.ts';
import { eventually, openDescriptors, queue, run, scratch } from './fixture.ts';

const threads = useWorkerThreads(2);
const closed = new Error('the queue is closed');

const O_RDONLY = 0;
const O_RDWR = 2;

/**
 * Closes a queue while a call of it waits for a worker thread: all threads wait for the other end of a FIFO, as for a disk
 * that hangs. Then `meanwhile` runs, and after that the call comes to its turn.
 */
async function closeUnder(
  t: TestContext,
  begin: (sick: DiskQueue) => Promise<unknown>,
  meanwhile: () => void = () => undefined,
): Promise<void> {
  const fifo = `${await scratch(t)}/fifo`;
  await run('mkfifo', [fifo]);
  const hanging = Array.from({ length: threads }, () => openFile(new DiskQueue('hanging', threads), fifo, O_RDONLY));
  let otherEnd: number | undefined;
  const sick = new DiskQueue('sick', 2);
  try {
    const call = begin(sick);
    sick.close(closed);
    await assert.rejects(call, closed);
    meanwhile();
  } finally {
    // Does not wait itself (fifo(7)).
    otherEnd = openSync(fifo, O_RDWR);
    for (const end of await Promise.all(hanging)) await end[Symbol.asyncDispose]();
    closeSync(otherEnd);
  }
  await eventually(async () => sick.isIdle);
}

/** Opens a file at once, with the lowest number that is free; closed after the test. */
function take(t: TestContext, path: string, flags = O_RDWR): void {
  const fd = openSync(path, flags);
  t.after(() => closeSync(fd));
}

describe('a call that is pending when its queue is closed', () => {
  test('keeps its file: another one opened meanwhile is not the one that is cut to size', async (t) => {
    const directory = await scratch(t);
    for (const name of ['sick', 'other']) await writeFile(`${directory}/${name}`, name);
    const file = await openFile(queue, `${directory}/sick`, O_RDWR);
    await closeUnder(
      t,
      (sick) => resizeFile(sick, file, 0n),
      () => {
        file.closeNow();
        take(t, `${directory}/other`);
      },
    );
    assert.equal(readFileSync(`${directory}/other`, 'utf8'), 'other');
    assert.equal(readFileSync(`${directory}/sick`, 'utf8'), '', 'the call was made, on its own file');
  });

  test('keeps the directory that a name lies in', async (t) => {
    const directory = await scratch(t);
    for (const name of ['sick', 'other']) await mkdir(`${directory}/${name}/x`, { recursive: true });
    const parent = await openDirectory(queue, `${directory}/sick`);
    await closeUnder(
      t,
      (sick) => removeDirectoryAt(sick, parent, 'x'),
      () => {
        parent.closeNow();
        take(t, `${directory}/other`, O_RDONLY);
      },
    );
    assert.deepEqual(await readdir(`${directory}/other`), ['x']);
    assert.deepEqual(await readdir(`${directory}/sick`), []);
  });

  test('keeps the directory that it is told of by its path below /proc', async (t) => {
    const directory = await scratch(t);
    for (const name of ['sick', 'other']) {
      await mkdir(`${directory}/${name}/x`, { recursive: true });
      await run('mount', ['-t', 'tmpfs', 'holdfast-test', `${directory}/${name}/x`]);
    }
    const parent = await openDirectory(queue, `${directory}/sick`);
    await closeUnder(
      t,
      (sick) => unmountAt(sick, parent, 'x'),
      () => {
        parent.closeNow();
        take(t, `${directory}/other`, O_RDONLY);
      },
    );
    const mounted = (await readMountTable(queue)).map(({ target }) => target);
    assert.ok(mounted.includes(`${directory}/other/x`));
    assert.ok(!mounted.includes(`${directory}/sick/x`));
  });

  test('keeps the stream that it reads the mount table from', async (t) => {
    // A stream that is freed under fread(3) ends the process, or makes it read what lies there now.
    await closeUnder(t, (sick) => readMountTable(sick));
    assert.ok((await readMountTable(queue)).length > 0);
  });

  test('one that was given up is lent to nobody, as its number may be that of another file', async (t) => {
    const directory = await scratch(t);
    for (const name of ['file', 'other']) await writeFile(`${directory}/${name}`, name);
    const file = await openFile(queue, `${directory}/file`, O_RDWR);
    file.closeNow();
    take(t, `${directory}/other`);
    await assert.rejects(resizeFile(queue, file, 0n), { code: 'EBADF' });
    assert.equal(readFileSync(`${directory}/other`, 'utf8'), 'other');
  });

  test('and lets go of all when it has ended', async (t) => {
    const directory = await scratch(t);
    await writeFile(`${directory}/file`, 'x');
    const before = [...(await openDescriptors()).keys()];
    const file = await openFile(queue, `${directory}/file`, O_RDWR);
    await closeUnder(
      t,
      (sick) => Promise.race([resizeFile(sick, file, 0n), readMountTable(sick)]),
      () => file.closeLater(),
    );
    await eventually(async () => (await openDescriptors()).size === before.length);
    assert.deepEqual([...(await openDescriptors()).keys()], before);
  });
});
