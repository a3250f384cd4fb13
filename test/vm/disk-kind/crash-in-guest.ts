/**
 * Runs in the virtual machine: a driver of a pool of a disk is killed before and after each step of each operation, and while
 * it labels the disk.
 * node crash-in-guest.ts NAME=DEVICE…
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { extname } from 'node:path';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { attachDevice } from '../../../src/pool/attached-device.ts';
import { blankDisk, diskFor, guestDisks, openTestDisk } from '../../support/disk-pool.ts';
import { volumeSpec } from '../../support/image-pool.ts';
import { Scratch } from '../../support/scratch.ts';
import { clear, idOf, operations } from './operations.ts';
import { pointsOf } from './points.ts';

const driver = fileURLToPath(new URL(`killed-driver${extname(import.meta.url)}`, import.meta.url));
const device = guestDisks().get('usual') ?? assert.fail();

/** @returns the steps that it passed; undefined: it was killed */
function drive(
  dataDirectory: string,
  operation: string,
  name: string,
  point: readonly string[] = [],
): string[] | undefined {
  mkdirSync(dataDirectory, { recursive: true });
  const words = [driver, device, dataDirectory, operation, name, ...point];
  const { signal, status, stderr, stdout } = spawnSync(process.execPath, words, { encoding: 'utf8' });
  if (signal === 'SIGKILL') return undefined;
  assert.equal(status, 0, stderr);
  return JSON.parse(stdout.trim());
}

describe('a driver of a disk that is killed', () => {
  const scratch = new Scratch('crash');
  const dataDirectory = scratch.join('data');
  const openPool = () => openTestDisk(scratch, diskFor(scratch, device), { dataDirectory });
  let count = 0;

  for (const [operationName, operation] of Object.entries(operations)) {
    test(`T03: ${operationName}: whatever is left can be gone on with`, async (t) => {
      /** Goes on with what is left of the last one, and prepares the next. */
      const between = async (last: string | undefined) => {
        const name = `v${++count}`;
        const pool = await openPool();
        if (last !== undefined) {
          await operation.run(pool, last);
          await operation.check(pool, last);
        }
        await clear(pool);
        await operation.prepare?.(pool, name);
        await pool.close();
        return name;
      };
      let name = await between(undefined);
      const steps = drive(dataDirectory, operationName, name) ?? [];
      t.diagnostic(steps.join(' '));
      for (const point of pointsOf(steps)) {
        name = await between(name);
        assert.equal(drive(dataDirectory, operationName, name, point), undefined, `${point}: it was not reached`);
      }
      await between(name);
    });
  }

  test('T03: its data is as it was, whatever the driver was killed in, and also by a machine that does not know it', async () => {
    const pool = await openPool();
    await clear(pool);
    const { id } = await pool.create(volumeSpec('precious', { content: { type: 'block' }, provisioning: 'thick' }));
    const attachment = await attachDevice(pool, id, { persistent: true });
    await attachment.release();
    writeFileSync(attachment.devicePath, Buffer.alloc(4096, 'precious'));
    await pool.detach(attachment);
    await pool.close();
    const steps = drive(dataDirectory, 'use', 'precious') ?? [];
    for (const point of pointsOf(steps)) drive(dataDirectory, 'use', 'precious', point);
    const elsewhere = await openTestDisk(scratch, device, { dataDirectory: scratch.join('elsewhere') });
    const again = await attachDevice(elsewhere, idOf('precious'), { persistent: true });
    await again.release();
    const bytes = (await readFile(again.devicePath)).subarray(0, 4096);
    assert.ok(bytes.equals(Buffer.alloc(4096, 'precious')));
    await elsewhere.detach(again);
    await elsewhere.close();
  });
});

test('T03: a first start that is killed is finished by the next, and by nobody else', async (t) => {
  blankDisk(device);
  using scratch = new Scratch('first');
  const steps = drive(scratch.join('all'), 'open', 'none') ?? [];
  t.diagnostic(steps.join(' '));
  assert.equal(steps.filter((step) => step === 'open/format').length, 4, 'a label is written in four parts');
  for (const [index, point] of pointsOf(steps).entries()) {
    blankDisk(device);
    const own = scratch.join(`${index}`);
    assert.equal(drive(own, 'open', 'none', point), undefined, `${point}: it was not reached`);
    assert.ok(drive(own, 'create', `v${index}`), `${point}`);
  }
});
