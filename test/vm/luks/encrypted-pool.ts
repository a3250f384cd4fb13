import { createHash } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import type { Catalog } from '../../../src/pool/catalog/catalog.ts';
import { luksLayer } from '../../../src/pool/layers/luks/luks-layer.ts';
import { over } from '../../../src/pool/layers/over.ts';
import { type ImageTestOptions, openTestPool } from '../../support/image-pool.ts';
import { type LvmTestOptions, openTestLvm } from '../../support/lvm-pool.ts';
import type { Scratch } from '../../support/scratch.ts';

/** The same in each process. */
export const poolKey = createHash('sha256').update('the key of a test').digest('base64');

function writePoolKey(keyFile: string): string {
  writeFileSync(keyFile, `${poolKey}\n`, { mode: 0o600 });
  return keyFile;
}

/** An image pool below a mount point with a layer of encryption, and a key file of its own. */
export function openWithLayer(mountPoint: string, scratch: Scratch, options: ImageTestOptions = {}): Promise<Catalog> {
  return openIn(join(mountPoint, basename(scratch.path)), scratch, options);
}

/** The same in a directory that other processes know as well. */
export function openIn(directory: string, scratch: Scratch, options: ImageTestOptions = {}): Promise<Catalog> {
  mkdirSync(directory, { recursive: true });
  const keyFile = writePoolKey(scratch.join('pool.key'));
  return openTestPool(scratch, {
    location: { type: 'directory', path: join(directory, 'pool') },
    layers: [(inner) => luksLayer(inner, { poolName: 'test', dataDirectory: directory, keyFile })],
    lockTimeoutMs: 60_000,
    ...options,
  });
}

/** A pool in a volume group with a layer of encryption, and a key file of its own. */
export function openLvmWithLayer(
  scratch: Pick<Scratch, 'join'>,
  volumeGroup: string,
  options: LvmTestOptions = {},
): Promise<Catalog> {
  const dataDirectory = options.dataDirectory ?? scratch.join('data');
  const layer = { poolName: 'test', dataDirectory, keyFile: writePoolKey(`${dataDirectory}.key`) };
  return openTestLvm(scratch, volumeGroup, { layers: [(inner) => luksLayer(inner, layer)], ...options });
}

/** The same pool, in which each new volume is encrypted, whether that is asked for or not. */
export function encryptingAll(pool: Catalog): Catalog {
  return over(pool, {
    create: (spec, source) => pool.create({ ...spec, encryption: 'luks2' }, source),
  });
}
