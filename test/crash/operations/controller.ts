import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { VolumeContent } from '../../../src/volume/capability.ts';
import { volumeIdFor } from '../../../src/volume/id.ts';
import type { StepName } from '../../../src/volume/step.ts';
import { nodeId } from '../crash-node.ts';
import { block, btrfs, ext4, nothing, type Operation, publishedWithData, used } from '../operation.ts';
import type { TestVolume } from '../test-volume.ts';

const formatting: readonly StepName[] = [
  'create/directory',
  'create/data',
  'create/format',
  'create/record',
  'create/commit',
];

/** The calls of the Controller service about volumes, and the operator's commands that change any. */
export const controllerOperations: readonly Operation[] = [
  { ...creation('CreateVolume', ext4, formatting), prelude: withTemplate },
  {
    ...creation('CreateVolume, the first of its size', ext4, [
      ...formatting,
      'template/format',
      'template/check',
      'template/commit',
    ]),
    prelude: withoutTemplate,
  },
  {
    ...creation('CreateVolume that needs the room of templates', btrfs, [...formatting, 'template/remove']),
    async prelude(volume) {
      await withTemplate(volume);
      await fill(volume);
    },
    cleanUp: unfill,
  },
  {
    ...creation('CreateVolume, where files cannot share blocks', ext4, formatting),
    circumstances: { pools: ['directory'] },
    prelude: withTemplate,
  },
  creation('CreateVolume block', block, ['create/directory', 'create/data', 'create/record', 'create/commit']),
  {
    name: 'DeleteVolume',
    content: ext4,
    steps: ['remove/trash', 'remove/purge'],
    isThereAfter: ({ step, when }) => step === 'remove/trash' && when === 'before',
    prelude: used,
    run: (volume) => volume.delete(),
    opposite: recreate,
  },
  {
    name: 'DeleteVolume that keeps it for a time',
    content: ext4,
    circumstances: { keepsTrash: true },
    steps: ['remove/mark', 'remove/trash'],
    isThereAfter: ({ step, when }) => step === 'remove/mark' || when === 'before',
    prelude: used,
    run: (volume) => volume.delete(),
    opposite: recreate,
  },
  {
    name: 'holdfast trash restore',
    content: ext4,
    circumstances: { keepsTrash: true },
    steps: ['restore/commit'],
    isThereAfter: ({ when }) => when === 'after',
    async prelude(volume) {
      await used(volume);
      const { checksum } = volume;
      await volume.delete();
      volume.rememberData(checksum);
    },
    run: (volume) => whileInTrash(volume, () => volume.node.admin.restore(volume.id)),
    opposite: (volume) => volume.destroy(),
  },
  {
    name: 'holdfast trash purge',
    content: ext4,
    circumstances: { keepsTrash: true },
    steps: ['remove/unmark', 'remove/purge'],
    isThereAfter: () => false,
    async prelude(volume) {
      await used(volume);
      await volume.delete();
    },
    run: (volume) => whileInTrash(volume, () => volume.node.admin.purge(volume.id)),
    // A volume in the trash does not stand in the way of a new one with its name.
    opposite: (volume) => volume.create(),
  },
  {
    name: 'ControllerExpandVolume, offline',
    content: ext4,
    steps: ['grow/data', 'grow/record'],
    prelude: used,
    run: expand,
    checkDone: grown,
    opposite: async (volume) => void (await volume.expandByController(volume.sizeBytes)),
  },
  {
    name: 'ControllerExpandVolume block, online',
    content: block,
    steps: ['grow/data', 'grow/record', 'grow/device'],
    prelude: publishedWithData,
    run: expand,
    checkDone: grown,
    opposite: async (volume) => void (await volume.expandByController(volume.sizeBytes)),
    checkUndone: (volume) => volume.checkData(),
  },
  modification('thick', 'thin'),
  modification('thin', 'thick'),
  {
    name: 'ControllerPublishVolume',
    content: ext4,
    circumstances: { isAttachRequired: true },
    steps: ['publication/record'],
    prelude: used,
    run: (volume) => volume.attach(),
    checkDone: (volume) => volume.stage(),
    opposite: (volume) => volume.detach(),
    checkUndone: (volume) => assert.rejects(volume.stage()),
  },
  {
    name: 'ControllerUnpublishVolume',
    content: ext4,
    circumstances: { isAttachRequired: true },
    steps: ['publication/record'],
    async prelude(volume) {
      await used(volume);
      await volume.attach();
    },
    run: (volume) => volume.detach(),
    checkDone: (volume) => assert.rejects(volume.stage()),
    opposite: (volume) => volume.attach(),
    checkUndone: (volume) => volume.stage(),
  },
];

/** A template of such a volume is there, and known to the driver. */
async function withTemplate(volume: TestVolume): Promise<void> {
  await volume.create();
  await volume.delete();
}

/** None is there. Who misses one that was removed by hand does without; the next makes it anew. */
async function withoutTemplate(volume: TestVolume): Promise<void> {
  await withTemplate(volume);
  rmSync(join(volume.pool.root, 'templates'), { recursive: true });
  await withTemplate(volume);
}

const mebibyte = 1n << 20n;
const filler = 'filler';

/** Leaves a little less than the volume needs; with what its template takes it is enough. */
async function fill({ node, pool, sizeBytes }: TestVolume): Promise<void> {
  const { controller } = node.client;
  const parameters = { pool: pool.name };
  const { available_capacity } = await controller.GetCapacity({ parameters });
  await controller.CreateVolume({
    name: filler,
    capacity_range: { required_bytes: available_capacity - sizeBytes + 2n * mebibyte },
    volume_capabilities: [{ block: {}, access_mode: { mode: 'SINGLE_NODE_WRITER' } }],
    parameters,
  });
}

async function unfill({ node, pool }: TestVolume): Promise<void> {
  await node.client.controller.DeleteVolume({ volume_id: volumeIdFor(nodeId, pool.name, filler) });
}

function creation(name: string, content: VolumeContent, steps: readonly StepName[]): Operation {
  return {
    name,
    content,
    steps,
    isThereAfter: ({ step, when }) => step === 'create/commit' && when === 'after',
    prelude: nothing,
    run: (volume) => volume.create(),
    opposite: (volume) => volume.delete(),
  };
}

function modification(to: 'thin' | 'thick', from: 'thin' | 'thick'): Operation {
  return {
    name: `ControllerModifyVolume to ${to}`,
    content: ext4,
    steps: ['modify/data', 'modify/record'],
    async prelude(volume) {
      await used(volume);
      await volume.modify({ provisioning: from });
    },
    run: (volume) => volume.modify({ provisioning: to }),
    checkDone: async (volume) => assert.equal(isAllocated(volume), to === 'thick'),
    opposite: (volume) => volume.modify({ provisioning: from }),
    checkUndone: async (volume) => assert.equal(isAllocated(volume), from === 'thick'),
  };
}

function isAllocated(volume: TestVolume): boolean {
  return volume.allocatedBytes() >= volume.sizeBytes;
}

/** Under its old name; if it was gone by then, it is a new one. */
async function recreate(volume: TestVolume): Promise<void> {
  if (!(await volume.exists())) volume.forgetData();
  await volume.create();
}

/** Done by the first try, perhaps: to try again is an operator's mistake, and told so. */
async function whileInTrash(volume: TestVolume, command: () => Promise<unknown>): Promise<void> {
  const { volumes } = await volume.node.admin.listTrash();
  if (volumes.some(({ id }) => id === volume.id)) await command();
}

async function expand(volume: TestVolume): Promise<void> {
  assert.equal(await volume.expandByController(), volume.grownBytes);
}

/** Whoever uses the volume has the room. */
async function grown(volume: TestVolume): Promise<void> {
  await volume.stage();
  await volume.publish();
  await volume.checkData();
  await volume.checkGrown();
}
