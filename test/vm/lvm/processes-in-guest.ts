/**
 * Runs in the virtual machine: how many commands of LVM each operation takes, as docs/lvm-repair.md says.
 * node processes-in-guest.ts [thin] DISK…
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { attachDevice } from '../../../src/pool/attached-device.ts';
import type { Pool, VolumeSpec } from '../../../src/pool/pool.ts';
import { snapshotIdFor } from '../../../src/volume/id.ts';
import { eventually } from '../../support/eventually.ts';
import { volumeSpec } from '../../support/image-pool.ts';
import { groupFor, guestArguments, lvm, openTestLvm } from '../../support/lvm-pool.ts';
import { mounted } from '../../support/mounted-volume.ts';
import { Scratch } from '../../support/scratch.ts';
import { changedRanges } from './changes-operation.ts';
import { idOf } from './operations.ts';

const { disks, options } = guestArguments();
const isThin = options.thinPool !== undefined;
const documentPath = fileURLToPath(new URL('../../../docs/lvm-repair.md', import.meta.url));

/** The numbers of the document's table, by operation. */
function told(): Map<string, readonly [number, number]> {
  const rows = readFileSync(documentPath, 'utf8').matchAll(/^\| ([^|]+) \| ([0-9]+) \| ?([0-9]*) ?\|$/gm);
  return new Map(
    Array.from(rows, ([, name = '', before, behind]) => [name, [Number(before), Number(behind)]] as const),
  );
}

/** Puts a program of the same name before LVM that counts. @returns how often it was started since it was asked last */
function countCommands(scratch: Scratch): () => number {
  const [directory, log] = [scratch.join('bin'), scratch.join('log')];
  mkdirSync(directory);
  writeFileSync(`${directory}/lvm`, `#!/bin/sh\necho "$1" >>${log}\nexec /usr/sbin/lvm "$@"\n`);
  chmodSync(`${directory}/lvm`, 0o755);
  process.env['PATH'] = `${directory}:${process.env['PATH'] ?? ''}`;
  return () => {
    const lines = existsSync(log) ? readFileSync(log, 'utf8').trim().split('\n').length : 0;
    writeFileSync(log, '');
    return lines;
  };
}

const sizeBytes = 8n << 20n;
const spec = (name: string, changes: Partial<VolumeSpec> = {}) =>
  volumeSpec(name, { content: { type: 'block' }, sizeBytes, ...changes });

async function attach(pool: Pool, name: string) {
  const attachment = await attachDevice(pool, idOf(name), { persistent: true });
  await attachment.release();
  return attachment;
}

async function cloneMounted(
  pool: Pool,
  scratch: Scratch,
  work: (clone: () => Promise<unknown>) => Promise<void>,
): Promise<void> {
  const options = { content: { type: 'mount', fsType: 'ext4' }, sizeBytes: 2n * sizeBytes } as const;
  const { id } = await pool.create(volumeSpec('mounted', options));
  await using _inUse = await mounted(pool, id, scratch);
  await work(() => pool.create(volumeSpec('clone', options), { type: 'volume', id }));
}

test('operations take as many commands of LVM as the document says', async () => {
  using scratch = new Scratch('processes');
  const volumeGroup = groupFor(scratch, disks);
  const pool = await openTestLvm(scratch, volumeGroup, options);
  if (isThin) {
    // With its first volume LVM makes a thin pool of what was one by itself, and the driver keeps that active.
    await pool.create(spec('first'));
    const name = `${volumeGroup.replaceAll('-', '--')}-holdfast--thin`;
    await eventually(
      () => void execFileSync('dmsetup', ['info', `${name}`, `${name}-tpool`], { stdio: 'pipe' }),
      60_000,
    );
  }
  const table = told();
  const commands = countCommands(scratch);
  const takes = async (operation: string, work: () => Promise<unknown>) => {
    writeFileSync(scratch.join('log'), '');
    await work();
    const expected = table.get(isThin ? `thin: ${operation}` : operation);
    assert.ok(expected, operation);
    const text = readFileSync(scratch.join('log'), 'utf8');
    const count = text === '' ? 0 : commands();
    assert.ok(count >= expected[0] && count <= expected[0] + expected[1], `${operation}: ${count}\n${text}`);
  };
  const snapshotId = snapshotIdFor('node', 'snapshot');
  await takes('create', () => pool.create(spec('a')));
  if (!isThin) {
    await takes('create with `striped` or `raid1`', () => pool.create(spec('striped', { layout: 'striped' })));
    await takes('create with `striped` or `raid1`', () => pool.create(spec('mirror', { layout: 'raid1' })));
    await takes('grow a mirror', () => pool.grow(idOf('mirror'), 2n * sizeBytes));
  }
  await takes('snapshot, of a volume whose logical volume is active', () =>
    pool.takeSnapshots([{ id: snapshotId, name: 'snapshot', sourceId: idOf('a'), parameters: {} }]),
  );
  if (isThin) {
    const changed = async () => void (await changedRanges(pool, undefined, snapshotId));
    await takes('changed blocks, of a snapshot made since LVM was asked last', changed);
    await takes('changed blocks, else', changed);
  }
  const source = { type: 'snapshot', id: snapshotId } as const;
  await takes('volume from a snapshot or volume of the same size', () => pool.create(spec('b'), source));
  await takes('the same, larger', () => pool.create(spec('c', { sizeBytes: 2n * sizeBytes }), source));
  await takes('grow', () => pool.grow(idOf('a'), 2n * sizeBytes));
  const attached = await attach(pool, 'a');
  await takes('unstage', () => pool.detach(attached));
  await takes('stage, of a volume whose logical volume is inactive', () => attach(pool, 'a'));
  await takes('stage, else', () => attach(pool, 'a'));
  if (isThin) {
    const again = snapshotIdFor('node', 'in use');
    await takes('snapshot, of a volume in use', () =>
      pool.takeSnapshots([{ id: again, name: 'in use', sourceId: idOf('a'), parameters: {} }]),
    );
    const inUse = { type: 'volume', id: idOf('a') } as const;
    await takes('raw block volume from one in use', () => pool.create(spec('d', { sizeBytes: 2n * sizeBytes }), inUse));
    await cloneMounted(pool, scratch, (clone) => takes('volume with a filesystem from one in use', clone));
  }
  await takes('GetCapacity', () => pool.capacity());
  await takes('delete', () => pool.remove(idOf('b')));
  await pool.create(spec('kept', { undeleteSeconds: 3600 }));
  await takes('delete with undelete', () => pool.remove(idOf('kept')));
  await takes('restore from the trash', () => pool.restore(idOf('kept')));
  // The last one: what it takes behind its answer would count for the next.
  if (!isThin) await takes('delete a mirror', () => pool.remove(idOf('mirror')));
  await pool.close();
  lvm('vgremove', '--force', '--force', '--yes', volumeGroup);
});
