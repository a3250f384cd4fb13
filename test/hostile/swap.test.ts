import assert from 'node:assert/strict';
import { dirname } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { VolumeContent } from '../../src/volume/capability.ts';
import { buildDriver, type DriverCommand } from '../crash/bundle.ts';
import { volumeMounts } from '../crash/invariants.ts';
import { TestVolume } from '../crash/test-volume.ts';
import { attempt } from './attempt.ts';
import { undoAll } from './fixture.ts';
import { HostileNode } from './hostile-node.ts';
import { times } from './runs.ts';
import { startSwapping } from './swapper.ts';

/*
 * UP06 UP07 PB16 PB18: whoever can write below the kubelet's directory swaps what is on the way to a path, and the path
 * itself, while the driver works there. Nothing is mounted, made or removed outside, and in the end all can be undone.
 */

let command: DriverCommand;
before(async () => {
  command = await buildDriver();
});
after(() => command[Symbol.dispose]());

const contents: Readonly<Record<string, VolumeContent>> = {
  'a filesystem volume': { type: 'mount', fsType: 'ext4' },
  'a block volume': { type: 'block' },
};

describe('paths that are swapped while the driver works there', () => {
  for (const [what, content] of Object.entries(contents)) {
    for (const where of ['the target', 'its parent', 'the staging directory', 'the parent of that'] as const) {
      test(`${what}, ${where}`, async (t) => {
        await using hostile = await HostileNode.open(command);
        const { node } = hostile;
        const volume = new TestVolume(node, 'swapped', content);
        await volume.create();
        const paths = {
          'the target': [volume.targetPath],
          'its parent': [dirname(volume.targetPath)],
          'the staging directory': [volume.stagingPath],
          'the parent of that': [dirname(volume.stagingPath)],
        }[where];
        let done = 0;
        let rounds = 0;
        {
          await using swapping = await startSwapping({ paths, outside: hostile.decoy });
          const calls = [
            () => volume.stage(),
            () => volume.publish(),
            () => volume.unpublish(),
            () => volume.unstage(),
          ];
          for (let life = 0; life < times(15); life++) {
            for (const call of calls) {
              // Again, as the kubelet does: with some luck it gets through.
              for (let count = 0; count < 3; count++) if (await attempt(call)) done++;
              hostile.checkUntouched();
            }
          }
          rounds = swapping.rounds;
        }
        t.diagnostic(`${times(15) * 12} calls, ${done} of them done, while it was swapped ${rounds} times`);
        await undoAll(node);
        assert.deepEqual(volumeMounts(node), []);
        await hostile.checkConsistent();
        await hostile.stop();
      });
    }
  }
});
