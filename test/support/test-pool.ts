import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import type { PoolOptions } from '../../src/pool/open.ts';
import { quiet } from './pool-log.ts';
import type { Scratch } from './scratch.ts';

/** What a test may choose for a pool: what its kind is configured by, and what all kinds are. */
export type TestPoolOptions<Own> = Partial<Own & Omit<PoolOptions, 'path'>>;

/** How the pools of tests are configured, whatever their kind. */
export function testSettings(scratch: Pick<Scratch, 'join'>) {
  return {
    name: 'test',
    dataDirectory: scratch.join('data'),
    nodeName: 'node',
    reserveBytes: undefined,
    overcommit: 1,
    defaultFilesystem: 'ext4',
    undeleteSeconds: 0,
    trimming: 'weekly',
    lockTimeoutMs: 0,
    queue: new DiskQueue('test', 4),
    log: quiet,
  } as const;
}
