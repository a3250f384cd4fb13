import { randomBytes } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import type { Catalog } from '../../../src/pool/catalog/catalog.ts';
import { luksLayer } from '../../../src/pool/layers/luks/luks-layer.ts';
import { over } from '../../../src/pool/layers/over.ts';
import { type ImageTestOptions, openTestPool } from '../../support/image-pool.ts';
import type { Scratch } from '../../support/scratch.ts';

export const poolKey = randomBytes(32);

/** An image pool below a mount point with a layer of encryption, and a key file of its own. */
export function openWithLayer(mountPoint: string, scratch: Scratch, options: ImageTestOptions = {}): Promise<Catalog> {
  mkdirSync(join(mountPoint, basename(scratch.path)), { recursive: true });
  const keyFile = scratch.join('pool.key');
  writeFileSync(keyFile, `${poolKey.toString('base64')}\n`, { mode: 0o600 });
  const dataDirectory = scratch.join('data');
  return openTestPool(scratch, {
    location: { type: 'directory', path: join(mountPoint, basename(scratch.path), 'pool') },
    layers: [(inner) => luksLayer(inner, { poolName: 'test', dataDirectory, keyFile })],
    ...options,
  });
}

/** The same, in which each new volume is encrypted, whether that is asked for or not. */
export async function openEncrypted(
  mountPoint: string,
  scratch: Scratch,
  options: ImageTestOptions = {},
): Promise<Catalog> {
  const pool = await openWithLayer(mountPoint, scratch, options);
  return over(pool, {
    create: (spec, source) => pool.create({ ...spec, encryption: 'luks2' }, source),
  });
}
