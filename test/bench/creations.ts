import type { Caller } from './caller.ts';
import { volumeBytes } from './life.ts';
import { median } from './statistics.ts';

/** Filesystems whose creation is timed, in the pool whose files share blocks. */
export const createdTypes = ['ext4', 'xfs'] as const;
export type CreatedType = (typeof createdTypes)[number];

/** CreateVolume as a single caller sees it: the median. */
export type CreationResult = Readonly<Record<CreatedType, { readonly p50Ms: number }>>;

/** One caller makes volumes and deletes them, of each filesystem in turn. */
export async function measureCreations(caller: Caller, rounds: number, signal: AbortSignal): Promise<CreationResult> {
  const times: Record<CreatedType, number[]> = { ext4: [], xfs: [] };
  // Round 0 is for templates and compilers.
  for (let round = 0; round <= rounds; round++) {
    for (const fsType of createdTypes) {
      signal.throwIfAborted();
      const elapsedMs = await makeOne(caller, `creation-${fsType}-${round}`, fsType);
      if (round > 0) times[fsType].push(elapsedMs);
    }
  }
  return { ext4: { p50Ms: median(times.ext4) }, xfs: { p50Ms: median(times.xfs) } };
}

async function makeOne({ controller }: Caller, name: string, fsType: CreatedType): Promise<number> {
  const start = performance.now();
  const { volume } = await controller.CreateVolume({
    name,
    capacity_range: { required_bytes: BigInt(volumeBytes) },
    volume_capabilities: [{ mount: { fs_type: fsType }, access_mode: { mode: 'SINGLE_NODE_WRITER' } }],
    parameters: { pool: 'file' },
  });
  const elapsedMs = performance.now() - start;
  await controller.DeleteVolume({ volume_id: volume?.volume_id ?? '' });
  return elapsedMs;
}
