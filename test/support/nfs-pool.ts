import { basename } from 'node:path';
import type { Catalog } from '../../src/pool/catalog/catalog.ts';
import { type NfsOpenOptions, openNfsBackend } from '../../src/pool/kinds/nfs/open.ts';
import { openOver } from '../../src/pool/open.ts';
import type { Scratch } from './scratch.ts';
import { type TestPoolOptions, testSettings } from './test-pool.ts';

/** As `test/vm/nfs/server.sh` makes it. */
export const testExport = { host: '10.77.0.1', share: '/export' } as const;

export const noOptions = { parameters: [], version: undefined, port: undefined } as const;

export type NfsTestOptions = TestPoolOptions<NfsOpenOptions>;

/** Opens the pool of a scratch directory, which has a directory of its own on the export. */
export function openTestNfs(scratch: Pick<Scratch, 'join' | 'path'>, options: NfsTestOptions = {}): Promise<Catalog> {
  const path = basename(scratch.path);
  const own = { exported: testExport, path, options: noOptions, mountOptions: '', onDelete: 'delete' } as const;
  const chosen = { ...testSettings(scratch), ...own, ...options };
  return openOver(() => openNfsBackend(chosen), chosen);
}
