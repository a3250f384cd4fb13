/**
 * Runs in the virtual machine: kill -9 at the steps that only encrypted volumes pass, and what the next start and the
 * same call make of it.
 * node crash-in-guest.ts DIRECTORY [OPERATION WHEN STEP]
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { attachDevice } from '../../../src/pool/attached-device.ts';
import type { Pool } from '../../../src/pool/pool.ts';
import { Secrets } from '../../../src/volume/secrets.ts';
import { armCrashPoint, type CrashPoint, type StepName } from '../../../src/volume/step.ts';
import { volumeSpec } from '../../support/image-pool.ts';
import { Scratch } from '../../support/scratch.ts';
import { openIn } from './encrypted-pool.ts';

const [, script = '', directory = '', operation, when, step] = process.argv;
const mebibyte = 1n << 20n;
const keyOf = (name: string) => createHash('sha256').update(name).digest('base64');
const [first, second] = [keyOf('first'), keyOf('second')];
const raw = volumeSpec('raw', { content: { type: 'block' } });
const rekeyed = { ...volumeSpec('rekeyed', { content: { type: 'block' } }), secrets: new Secrets({ key: first }) };
const base = volumeSpec('base');
const encryption = 'luks2';

async function attach(pool: Pool, id: Parameters<Pool['attach']>[0], secrets = new Secrets({})): Promise<void> {
  await (await attachDevice(pool, id, { persistent: false, secrets })).release();
}

const operations: Readonly<Record<string, (pool: Pool) => Promise<unknown>>> = {
  create: (pool) => pool.create({ ...volumeSpec('made'), encryption }),
  stage: (pool) => attach(pool, base.id),
  clone: (pool) => pool.create(volumeSpec('clone'), { type: 'volume', id: base.id }),
  async grow(pool) {
    const attachment = await attachDevice(pool, raw.id, { persistent: true });
    await attachment.release();
    await pool.grow(raw.id, 96n * mebibyte);
    assert.equal(sizeOf(attachment.devicePath), 96n * mebibyte);
    await pool.detach(attachment);
  },
  async rekey(pool) {
    await attach(pool, rekeyed.id, new Secrets({ key: second, previousKey: first }));
    await attach(pool, rekeyed.id, new Secrets({ key: second }));
    await assert.rejects(attach(pool, rekeyed.id, new Secrets({ key: first })));
    // Back, for the next kill.
    await attach(pool, rekeyed.id, new Secrets({ key: first, previousKey: second }));
  },
  async remove(pool) {
    const { id } = volumeSpec('gone', { content: { type: 'block' } });
    if ((await pool.find(id)) === undefined) return;
    await pool.remove(id);
  },
};

/** What each kill is to leave behind is to go at the next start. */
const kills: readonly (readonly [string, CrashPoint['when'], StepName])[] = [
  ['create', 'after', 'luks/format'],
  ['create', 'after', 'luks/open'],
  ['create', 'after', 'luks/close'],
  ['stage', 'after', 'luks/open'],
  ['stage', 'after', 'luks/defer'],
  ['clone', 'after', 'luks/identity'],
  ['grow', 'before', 'luks/resize'],
  ['grow', 'after', 'luks/resize'],
  ['rekey', 'after', 'luks/add-key'],
  ['rekey', 'after', 'luks/name-key'],
  ['rekey', 'after', 'luks/remove-key'],
  ['rekey', 'after', 'rekey/record'],
  ['remove', 'before', 'luks/erase'],
  ['remove', 'after', 'luks/erase'],
];

function sizeOf(devicePath: string): bigint {
  return BigInt(readFileSync(`/sys/class/block/${devicePath.slice('/dev/'.length)}/size`, 'utf8')) * 512n;
}

function mappers(): string[] {
  return readdirSync('/sys/block').filter((name) => name.startsWith('dm-'));
}

using scratch = new Scratch('luks');
const open = () => openIn(directory, scratch);

if (operation !== undefined) {
  const pool = await open();
  armCrashPoint({ when: when as CrashPoint['when'], step: step as StepName });
  await operations[operation]?.(pool);
  console.log('nothing was killed');
} else {
  const pool = await open();
  await pool.create({ ...base, encryption });
  await pool.create({ ...raw, encryption });
  await pool.create({ ...rekeyed, encryption });
  await pool.close();
  for (const [name, at, killedStep] of kills) {
    const before = await open();
    const gone = volumeSpec('gone', { content: { type: 'block' } });
    if (name === 'remove') await before.create({ ...gone, encryption });
    await before.close();
    const child = spawnSync(process.execPath, [script, directory, name, at, killedStep], { encoding: 'utf8' });
    assert.equal(child.signal, 'SIGKILL', `${name} ${at} ${killedStep}: ${child.stdout}${child.stderr}`);
    const again = await open();
    assert.deepEqual(mappers(), [], `${name} ${at} ${killedStep}: a mapper is left`);
    if (name === 'remove') assert.equal(await again.find(gone.id), undefined);
    await operations[name]?.(again);
    for (const each of ['made', 'clone']) await again.remove(volumeSpec(each).id);
    await again.close();
    assert.deepEqual(readdirSync(join(directory, 'pool', 'tmp')), []);
    assert.deepEqual(readdirSync(join(directory, 'pool', 'trash')), []);
    console.log(`killed ${at} ${killedStep} of ${name}: ok`);
  }
  console.log(`${kills.length} kills (${fileURLToPath(import.meta.url)})`);
}
