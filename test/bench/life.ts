import type { Caller } from './caller.ts';

/** A volume's life, as everything here measures it. */

export const rpcs = [
  'CreateVolume',
  'NodeStageVolume',
  'NodePublishVolume',
  'NodeUnpublishVolume',
  'NodeUnstageVolume',
  'DeleteVolume',
] as const;

export type Rpc = (typeof rpcs)[number];

/** The size of the volumes whose lives are timed. */
export const volumeBytes = 2 ** 30;

export interface LifeOptions {
  readonly caller: Caller;
  readonly pool: string;
  readonly name: string;
  /** An existing directory, as the kubelet makes it. */
  readonly stagingPath: string;
  /** Whose parent exists. */
  readonly targetPath: string;
  readonly signal: AbortSignal;
}

/** How the volumes are used. */
export const capability = {
  mount: { fs_type: 'ext4' },
  access_mode: { mode: 'SINGLE_NODE_WRITER' },
} as const;

/** One volume from its creation to its deletion. Yields the milliseconds of each RPC, in the order of `rpcs`. */
export async function live({ caller, pool, name, stagingPath, targetPath, signal }: LifeOptions): Promise<number[]> {
  const times: number[] = [];
  const timed = async <T>(call: Promise<T>): Promise<T> => {
    const start = performance.now();
    const response = await call;
    times.push(performance.now() - start);
    signal.throwIfAborted();
    return response;
  };
  const { controller, node } = caller;
  const { volume } = await timed(
    controller.CreateVolume({
      name,
      capacity_range: { required_bytes: BigInt(volumeBytes) },
      volume_capabilities: [capability],
      parameters: { pool },
    }),
  );
  const volume_id = volume?.volume_id ?? '';
  const staged = { volume_id, staging_target_path: stagingPath };
  const published = { volume_id, target_path: targetPath };
  await timed(node.NodeStageVolume({ ...staged, volume_capability: capability }));
  await timed(node.NodePublishVolume({ ...staged, ...published, volume_capability: capability }));
  await timed(node.NodeUnpublishVolume(published));
  await timed(node.NodeUnstageVolume(staged));
  await timed(controller.DeleteVolume({ volume_id }));
  return times;
}
