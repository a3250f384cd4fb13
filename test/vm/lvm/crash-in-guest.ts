/**
 * Runs in the virtual machine: a driver of a pool in a volume group is killed before and after each step of each operation;
 * one of encrypted volumes, after each.
 * node crash-in-guest.ts [linear|thin|encrypted] [OPERATION…] [STEP…] DISK…
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { extname } from 'node:path';
import { before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { attachDevice } from '../../../src/pool/attached-device.ts';
import type { Pool } from '../../../src/pool/pool.ts';
import { volumeIdFor } from '../../../src/volume/id.ts';
import { eventually } from '../../support/eventually.ts';
import { volumeSpec } from '../../support/image-pool.ts';
import { groupFor, lvm } from '../../support/lvm-pool.ts';
import { Scratch } from '../../support/scratch.ts';
import { encryptedOperations } from '../luks/encrypted-operations.ts';
import { inUseOperations } from './in-use-operations.ts';
import { clear, type Operation, operations } from './operations.ts';
import { isSort, openOfSort } from './sort.ts';

const words = process.argv.slice(2);
const disks = words.filter((word) => word.startsWith('/dev/'));
const sort = words.find(isSort) ?? 'linear';
const ofItsOwn = { linear: {}, thin: inUseOperations, encrypted: encryptedOperations }[sort];
const all: Readonly<Record<string, Operation>> = { ...operations, ...ofItsOwn };
const named = Object.entries(all).filter(([name]) => words.includes(name));
const chosen = named.length === 0 ? Object.entries(all) : named;
/** For a short run; none: all. */
const chosenSteps = words.filter((word) => /^[a-z]+\/[a-z-]+$/.test(word));
/** Before a step it is as after the last one. Encrypted volumes take so long that they are killed after each only. */
const whens = sort === 'encrypted' ? (['after'] as const) : (['before', 'after'] as const);
/** The pool's own logical volumes, and one of a volume. */
const lvCount = sort === 'thin' ? 3 : 2;
const driver = fileURLToPath(new URL(`killed-driver${extname(import.meta.url)}`, import.meta.url));
const scratch = new Scratch('crash');
const volumeGroup = groupFor(scratch, disks);
const dataDirectory = scratch.join('data');
const precious = volumeSpec('precious', { content: { type: 'block' }, sizeBytes: 8n << 20n });
/** For disks that have to write all the zeros, on a busy machine. */
const patienceMs = 300_000;
const foreign = 'vol-looks-like-ours';

/** @returns the steps that it passed; undefined: it was killed */
function drive(operation: string, name: string, point: readonly string[] = []): string[] | undefined {
  const { signal, status, stderr, stdout } = spawnSync(
    process.execPath,
    [driver, sort, volumeGroup, dataDirectory, operation, name, ...point],
    { encoding: 'utf8' },
  );
  if (signal === 'SIGKILL') return undefined;
  assert.equal(status, 0, stderr);
  return JSON.parse(stdout.trim());
}

function openPool(): Promise<Pool> {
  return openOfSort(sort, volumeGroup, dataDirectory);
}

async function writePrecious(pool: Pool): Promise<void> {
  await pool.create(precious);
  const attachment = await attachDevice(pool, precious.id, { persistent: true });
  await attachment.release();
  writeFileSync(attachment.devicePath, Buffer.alloc(4096, 'precious'));
  await pool.detach(attachment);
}

/** What opens encrypted volumes and drafts. */
function openMappers(): string[] {
  const names = readdirSync('/sys/block').filter((name) => name.startsWith('dm-'));
  return names.filter((name) => readFileSync(`/sys/block/${name}/dm/name`, 'utf8').startsWith('holdfast-'));
}

/** Nothing is lost, nothing half made is left, and what others have in the group is as it was. */
async function checkPool(pool: Pool): Promise<void> {
  const attachment = await attachDevice(pool, precious.id, { persistent: true });
  await attachment.release();
  const bytes = (await readFile(attachment.devicePath)).subarray(0, 4096);
  assert.ok(bytes.equals(Buffer.alloc(4096, 'precious')));
  await pool.detach(attachment);
  await eventually(async () => {
    const names = lvm('lvs', '--noheadings', '-o', 'lv_name', volumeGroup).trim().split(/\s+/).sort();
    const ours = names.filter((name) => name !== foreign);
    assert.ok(names.includes(foreign));
    assert.deepEqual(ours.length, lvCount, names.join(' '));
    assert.deepEqual(openMappers(), []);
  }, patienceMs);
}

describe('a driver of a volume group that is killed', () => {
  before(async () => {
    lvm('lvcreate', '--yes', '--size', '8m', '--addtag', 'holdfast.draft', '--name', foreign, volumeGroup);
    const pool = await openPool();
    await writePrecious(pool);
    await pool.close();
  });

  let count = 0;
  for (const [operationName, operation] of chosen) {
    test(`T03: ${operationName}: whatever is left can be gone on with, and nothing is lost`, async (t) => {
      /** Goes on with what is left of the last one, and prepares the next. */
      const between = async (last: string | undefined) => {
        const name = `v${++count}`;
        const pool = await openPool();
        if (last !== undefined) {
          await operation.run(pool, last);
          await operation.check(pool, last);
          await clear(pool, 'precious');
          await checkPool(pool);
        }
        await operation.prepare(pool, name);
        await pool.close();
        return name;
      };
      let name = await between(undefined);
      const passed = drive(operationName, name) ?? [];
      const steps = chosenSteps.length === 0 ? passed : chosenSteps;
      t.diagnostic(steps.join(' '));
      for (const step of steps) {
        for (const when of whens) {
          name = await between(name);
          assert.equal(drive(operationName, name, [when, step]), undefined, `${when} ${step}: it was not reached`);
        }
      }
      await between(name);
    });
  }
});

if (named.length === 0) {
  test('T03: a first start that is killed is finished by the next', async () => {
    const data = scratch.join('first');
    assert.equal(volumeIdFor('node', 'test', 'precious'), precious.id);
    for (const [when, step] of [
      ['before', 'open/identity'],
      ['after', 'open/identity'],
      ...(sort !== 'thin' ? [] : [['before', 'open/commit'] as const, ['after', 'open/commit'] as const]),
      ['before', 'open/remember'],
      ['after', 'open/remember'],
    ]) {
      const fresh = groupFor(new Scratch('first'), disks);
      const args = [driver, sort, fresh, `${data}-${fresh}`, 'open', 'none'];
      const killed = spawnSync(process.execPath, [...args, when ?? '', step ?? ''], { encoding: 'utf8' });
      assert.equal(killed.signal, 'SIGKILL', killed.stderr);
      const next = spawnSync(process.execPath, args, { encoding: 'utf8' });
      assert.equal(next.status, 0, next.stderr);
    }
  });
}
