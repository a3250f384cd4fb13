import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { parseMountTable } from '../../src/kernel/mount/mount-table.ts';
import type { NodeKind, NodeSide, VolumeOnNode } from '../../src/pool/node-side.ts';
import { accessModes } from '../../src/volume/capability.ts';
import { ContextHarness } from '../support/context-harness.ts';
import { mountCapability, type TestVolume } from '../support/node-volume.ts';

/* Mounts that a process serves, as FUSE has them, and whose process has ended. */

/** Processes that have served the volume so far: the last one runs, the mounts of those before are lost. */
let generation = 1;

const servedKind: NodeKind = {
  name: 'served',
  traits: { detaching: 'automatic', accessModes },
  namingKeys: ['served'],
  keys: ['served'],
  read: () => ({ content: { type: 'directory' } }),
  shows: ({ context }, { mount }) => (mount?.source.startsWith(`${context['served']}-`) === true ? 'whole' : undefined),
  serverOf: () => 'here',
  async open(): Promise<NodeSide> {
    const mountable = ({ context }: VolumeOnNode) =>
      ({ kind: 'mountable', fsType: 'tmpfs', options: [], source: `${context['served']}-${generation}` }) as const;
    return {
      name: 'served here',
      attach: async (volume) => ({ ...mountable(volume), release: async () => undefined }),
      attached: async (volume) => [mountable(volume)],
      isLost: async (_volume, { source }) => !source.endsWith(`-${generation}`),
    };
  },
};

const volume_context = { kind: 'served', served: 'data' };
let harness: ContextHarness;
let volume: TestVolume;

beforeEach(async () => {
  generation = 1;
  harness = await ContextHarness.open([servedKind]);
  volume = harness.volume('served', mountCapability('MULTI_NODE_MULTI_WRITER', ['nosuid']));
  await volume.stage({ volume_context });
  await volume.publish({ volume_context });
});
afterEach(async () => {
  await volume.down();
  assert.deepEqual([harness.mounts(), harness.notes()], [[], []]);
  await harness[Symbol.asyncDispose]();
});

/** Sources of the mounts at a path, and whether the last one has the attributes of its stage. */
function at(path: string): string[] {
  const table = parseMountTable(readFileSync('/proc/self/mountinfo', 'utf8'));
  return table
    .filter(({ target }) => target === path)
    .map(({ options, source }) => `${source}${options.includes('nosuid') ? '' : ' suid'}`);
}

async function condition(path: string): Promise<string> {
  const { volume_condition } = await volume.stats(path);
  return volume_condition?.abnormal === true ? volume_condition.message : 'well';
}

describe('a mount whose process has ended', () => {
  test('is told by the condition of each path, and replaced by the next stage', async () => {
    await volume.stage({ volume_context });
    assert.deepEqual([at(volume.staging), await condition(volume.target)], [['data-1'], 'well']);
    generation = 2;
    assert.match(await condition(volume.target), /process that served this mount has ended: end the pod/);
    await volume.stage({ volume_context });
    assert.deepEqual([at(volume.staging), at(volume.target)], [['data-2'], ['data-1']]);
    assert.match(await condition(volume.target), /has ended/);
    assert.equal(await condition(volume.staging), 'well');
  });

  test('is replaced by the publish for another pod: the kubelet stages once for all pods of a node', async () => {
    generation = 2;
    const second = join(volume.pod, 'second');
    await volume.publish({ volume_context, target_path: second });
    assert.deepEqual([at(volume.staging), at(second), at(volume.target)], [['data-2'], ['data-2'], ['data-1']]);
    await volume.unpublish(second);
  });

  test('is not replaced by a publish for another use than that of the stage', async () => {
    generation = 2;
    const otherwise = { volume_context, volume_capability: mountCapability('MULTI_NODE_MULTI_WRITER', ['noexec']) };
    await assert.rejects(volume.publish({ ...otherwise, target_path: join(volume.pod, 'second') }), {
      code: 'FAILED_PRECONDITION',
    });
    assert.deepEqual(at(volume.staging), ['data-1']);
  });

  test('is replaced at the target of a pod that starts again', async () => {
    generation = 2;
    await volume.publish({ volume_context });
    assert.deepEqual([at(volume.staging), at(volume.target)], [['data-2'], ['data-2']]);
    await volume.publish({ volume_context });
    assert.deepEqual(at(volume.target), ['data-2']);
  });

  test('is staged again also if a driver has died between its unmount and the new mount', async () => {
    generation = 2;
    execFileSync('umount', [volume.staging]);
    await harness.restart();
    await volume.publish({ volume_context });
    assert.deepEqual([at(volume.staging), at(volume.target)], [['data-2'], ['data-2']]);
  });
});
