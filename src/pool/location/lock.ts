import type { Descriptor } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { isStillNamed, lockExclusively, lockHolders } from '../../kernel/process/lock.ts';
import { FailedPrecondition, Unavailable } from '../../volume/errors.ts';
import { pause } from '../../volume/flow/pause.ts';
import type { LocationOptions } from './location.ts';

const retryMs = 100;

/**
 * Takes the lock that makes this process the pool's only owner: a flock(2) on the directory, device or file itself,
 * so that two drivers meet even if nothing else of their configuration is the same. A driver that is being replaced
 * needs a moment to finish, so this waits.
 * @throws FailedPrecondition naming the holder, Unavailable once this driver itself is stopping
 */
export async function takeLock(
  options: Pick<LocationOptions, 'queue' | 'lockTimeoutMs' | 'log' | 'poolName' | 'stopping'>,
  path: string,
): Promise<Descriptor> {
  const { log, poolName, queue, lockTimeoutMs, stopping } = options;
  const giveUpAt = Date.now() + lockTimeoutMs;
  let isTold = false;
  for (;;) {
    if (stopping?.aborted) throw new Unavailable(`pool ${poolName} is not opened any more: the driver is stopping.`);
    const lock = await lockNow(queue, path);
    if (lock !== undefined) return lock;
    if (Date.now() >= giveUpAt) {
      throw new PoolHeld(
        `pool ${poolName}: ${path} is held by ${await nameHolders(queue, path)}. Only one driver can run a pool: stop the other one, or give this one another pool.`,
      );
    }
    if (!isTold) {
      isTold = true;
      const waitSeconds = Number.isFinite(lockTimeoutMs) ? Math.ceil(lockTimeoutMs / 1000) : undefined;
      const heldBy = await nameHolders(queue, path);
      log?.warn(
        { pool: poolName, path, held_by: heldBy, wait_s: waitSeconds },
        'waiting for another driver to let a pool go',
      );
    }
    await pause(retryMs, stopping);
  }
}

async function nameHolders(queue: DiskQueue, path: string): Promise<string> {
  const holders = await lockHolders(queue, path);
  const names = holders.map(({ pid, command }) => `process ${pid} (${command})`);
  return names.join(', ') || 'a process outside this namespace';
}

/** A lock on something that has lost its name since, or was replaced, keeps no other program out: then it is not held. */
async function lockNow(queue: DiskQueue, path: string): Promise<Descriptor | undefined> {
  const lock = await lockExclusively(queue, path);
  if (lock === undefined) return undefined;
  try {
    if (await isStillNamed(queue, lock, path)) return lock;
    await lock[Symbol.asyncDispose]();
    return undefined;
  } catch (error) {
    await lock[Symbol.asyncDispose]();
    throw error;
  }
}

/** Another process owns the pool. */
export class PoolHeld extends FailedPrecondition {}
