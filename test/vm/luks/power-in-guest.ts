/**
 * Runs in the virtual machine: makes encrypted volumes and says so when they are durable; after a power cut looks for them.
 * node power-in-guest.ts DIRECTORY make|look COUNT
 */
import assert from 'node:assert/strict';
import { closeSync, fsyncSync, openSync, readSync, writeSync } from 'node:fs';
import { attachDevice } from '../../../src/pool/attached-device.ts';
import { volumeSpec } from '../../support/image-pool.ts';
import { Scratch } from '../../support/scratch.ts';
import { contentOf } from '../machine/content.ts';
import { openIn } from './encrypted-pool.ts';

const [, , directory = '', what, count = '0'] = process.argv;
const bytes = 1 << 20;
using scratch = new Scratch('luks');
const pool = await openIn(directory, scratch);
for (let number = 0; number < Number(count); number++) {
  const spec = volumeSpec(`volume ${number}`, { content: { type: 'block' } });
  if (what === 'make' && (await pool.find(spec.id)) === undefined) await pool.create({ ...spec, encryption: 'luks2' });
  const attachment = await attachDevice(pool, spec.id, { persistent: false });
  const device = openSync(attachment.devicePath, 'r+');
  const content = contentOf(number, bytes);
  if (what === 'make') {
    writeSync(device, content);
    fsyncSync(device);
  } else {
    const found = Buffer.alloc(bytes);
    readSync(device, found, 0, bytes, 0);
    assert.ok(found.equals(content), `volume ${number} lost what was synced`);
  }
  closeSync(device);
  await attachment.release();
}
if (what === 'look') await pool.close();
// No close after `make`: the power goes now.
console.log('done');
process.exit(0);
