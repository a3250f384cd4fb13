import { ext4, type Operation } from '../operation.ts';
import { TestEphemeral } from '../test-ephemeral.ts';
import type { TestVolume } from '../test-volume.ts';

/** A pod's inline volume: made when it is published, removed when it is unpublished. */
export const ephemeralOperations: readonly Operation[] = [
  {
    name: 'NodePublishVolume, ephemeral',
    content: ext4,
    steps: [
      'create/directory',
      'create/data',
      'create/format',
      'create/record',
      'create/commit',
      'attach/device',
      'ephemeral/populate',
      'ephemeral/prepare',
      'publish/target',
      'publish/mount',
    ],
    isThereAfter: () => false,
    // Whoever is the first of its size makes the template that it is cloned from.
    async prelude(volume) {
      await inlineOf(volume).publish();
      await inlineOf(volume).unpublish();
    },
    run: (volume) => inlineOf(volume).publish(),
    checkDone: async (volume) => inlineOf(volume).check(),
    opposite: (volume) => inlineOf(volume).unpublish(),
    checkUndone: async (volume) => inlineOf(volume).checkGone(),
    cleanUp: (volume) => inlineOf(volume).unpublish(),
  },
  {
    name: 'NodeUnpublishVolume, ephemeral',
    content: ext4,
    steps: ['unpublish/unmount', 'unpublish/target', 'remove/trash', 'remove/purge'],
    isThereAfter: () => false,
    prelude: (volume) => inlineOf(volume).publish(),
    run: (volume) => inlineOf(volume).unpublish(),
    checkDone: async (volume) => inlineOf(volume).checkGone(),
    opposite: (volume) => inlineOf(volume).publish(),
    checkUndone: async (volume) => inlineOf(volume).check(),
    cleanUp: (volume) => inlineOf(volume).unpublish(),
  },
];

const inlineVolumes = new WeakMap<TestVolume, TestEphemeral>();

/** The volume that these operations are about stands beside the one whose whole life is lived after each of them. */
function inlineOf(volume: TestVolume): TestEphemeral {
  let found = inlineVolumes.get(volume);
  if (found === undefined) {
    found = new TestEphemeral(volume.node, `${volume.name}-inline`);
    inlineVolumes.set(volume, found);
  }
  return found;
}
