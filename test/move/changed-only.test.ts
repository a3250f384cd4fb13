import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { volumeSpec } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';
import { deviceOf, digestOf, write } from './devices.ts';
import { Broker, MovingNode, order } from './two-nodes.ts';

const mib = 1 << 20;
const sizeBytes = 256 * mib;
const spec = volumeSpec('data', { content: { type: 'block' }, sizeBytes: BigInt(sizeBytes) });
const { id } = spec;

/** The bytes that were read of the disk that a file is shown as. /sys/block/…/stat counts sectors of 512 bytes. */
function readOf(path: string): number {
  const device = execFileSync('losetup', ['--noheadings', '--output', 'NAME', '--associated', path], {
    encoding: 'utf8',
  });
  const fields = readFileSync(`/sys/block/${basename(device.trim())}/stat`, 'utf8')
    .trim()
    .split(/\s+/);
  return Number(fields[2]) * 512;
}

test('a volume in use that moves: after the first round only changed blocks are read at the disk of its node', async (t) => {
  using scratch = new Scratch('nodes');
  const broker = new Broker();
  await using a = await MovingNode.open(scratch, broker, 'a', { xfs: true });
  await using b = await MovingNode.open(scratch, broker, 'b');
  const disk = scratch.join('a.img');
  await a.pool.create(spec);
  const part = randomBytes(64 * mib);
  const whole = createHash('sha256');
  let first: number;
  {
    await using shown = await deviceOf(a, id);
    for (let at = 0; at < sizeBytes; at += part.length) write(shown.devicePath, part, BigInt(at));
    const start = readOf(disk);
    await order(a, b, id);
    await eventually(() => assert.equal(b.sight(id).progress?.phase, 'waiting'));
    first = readOf(disk);
    assert.ok(first - start >= sizeBytes, `${first - start}`);
    for (let at = 0; at < sizeBytes; at += 8 * mib) {
      const piece = randomBytes(64 << 10);
      write(shown.devicePath, piece, BigInt(at));
      part.set(piece, at % part.length);
      if ((at + 8 * mib) % part.length === 0) whole.update(part);
    }
  }
  assert.equal((await b.ended(id)).job.state, 'done');
  const changes = readOf(disk) - first;
  t.diagnostic(`${changes / mib} MiB read for 2 MiB that changed`);
  assert.ok(changes >= 2 * mib && changes < 4 * mib, `${changes}`);
  await using shown = await deviceOf(b, id);
  assert.equal(digestOf(shown.devicePath), whole.digest('hex'));
});
