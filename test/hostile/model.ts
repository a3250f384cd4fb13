import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { type VolumeId, volumeIdFor } from '../../src/volume/id.ts';
import { type CrashNode, nodeId } from '../crash/crash-node.ts';
import { volumeMounts } from '../crash/invariants.ts';
import { CallError } from '../support/client.ts';

/** All that a caller knows of a volume. */
export interface ModelVolume {
  sizeBytes: bigint;
  isStaged: boolean;
  readonly targets: Set<number>;
}

/** What must be there, by name. */
export type Model = Map<string, ModelVolume>;

/** A volume's name, and every path and capability that it is ever called with. */
export class Actor {
  readonly name: string;
  readonly id: VolumeId;
  readonly staging: string;
  readonly targets: readonly string[];
  readonly isBlock: boolean;
  readonly capability;

  constructor({ defaultPool, kubeletDirectory }: CrashNode, name: string, isBlock: boolean) {
    this.name = name;
    this.isBlock = isBlock;
    this.id = volumeIdFor(nodeId, defaultPool.name, name);
    this.staging = join(kubeletDirectory, 'plugins', name, 'globalmount');
    const pod = join(kubeletDirectory, 'pods', name);
    this.targets = [join(pod, 'one'), join(pod, 'two')];
    for (const directory of [this.staging, pod]) mkdirSync(directory, { recursive: true });
    const access = isBlock ? { block: {} } : { mount: { fs_type: 'ext4' } };
    this.capability = { ...access, access_mode: { mode: 'SINGLE_NODE_MULTI_WRITER' } } as const;
  }

  /** Where the volume is seen, if it is as the model has it. */
  pathsOf({ isStaged, targets }: ModelVolume): string[] {
    const staged = this.isBlock ? join(this.staging, this.id) : this.staging;
    return [...(isStaged ? [staged] : []), ...[...targets].map((index) => this.targets[index] ?? '')];
  }
}

/** Asserts that the driver lists, and the kernel shows, what the model has, and nothing else. */
export async function compare(node: CrashNode, actors: readonly Actor[], model: Model): Promise<void> {
  const { entries } = await node.client.controller.ListVolumes({});
  const listed = entries.map(({ volume }) => [volume?.volume_id ?? '', volume?.capacity_bytes ?? 0n] as const);
  const known = actors.flatMap((actor) => {
    const volume = model.get(actor.name);
    return volume === undefined ? [] : [{ actor, volume }];
  });
  assert.deepEqual(
    new Map(listed),
    new Map(known.map(({ actor, volume }) => [actor.id as string, volume.sizeBytes] as const)),
  );
  const seen = volumeMounts(node).map(({ target }) => target);
  const expected = known.flatMap(({ actor, volume }) => actor.pathsOf(volume));
  assert.deepEqual(seen.sort(), expected.sort());
}

/** The code of a call: OK, or why not. */
export async function codeOf(call: Promise<unknown>): Promise<string> {
  try {
    await call;
    return 'OK';
  } catch (error) {
    if (error instanceof CallError) return error.code;
    throw error;
  }
}
