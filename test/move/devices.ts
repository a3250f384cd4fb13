import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { closeSync, fsyncSync, openSync, readFileSync, writeSync } from 'node:fs';
import type { Pools } from '../../src/pool/pools.ts';
import type { VolumeId } from '../../src/volume/id.ts';

/** A volume, attached as a device until it is disposed of. */
export async function deviceOf({ pools }: { readonly pools: Pools }, id: VolumeId) {
  const { pool } = await pools.require(id);
  const attached = await pool.attach(id, { persistent: true });
  assert.ok(attached.kind === 'device');
  await attached.release();
  return { devicePath: attached.devicePath, [Symbol.asyncDispose]: () => pool.detach(attached) };
}

/** Writes to a device, and syncs it. */
export function write(path: string, bytes: Buffer, offsetBytes: bigint): void {
  const file = openSync(path, 'r+');
  writeSync(file, bytes, 0, bytes.length, Number(offsetBytes));
  fsyncSync(file);
  closeSync(file);
}

export function digestOf(path: string): string {
  return createHash('sha256').update(readFileSync(path)).digest('hex');
}

/** A pod writes to the volume, and ends. @returns the digest of what it has then */
export async function written(node: { readonly pools: Pools }, id: VolumeId): Promise<string> {
  await using shown = await deviceOf(node, id);
  write(shown.devicePath, randomBytes(4 << 20), 0n);
  return digestOf(shown.devicePath);
}

export async function digestIn(node: { readonly pools: Pools }, id: VolumeId): Promise<string> {
  await using shown = await deviceOf(node, id);
  return digestOf(shown.devicePath);
}
