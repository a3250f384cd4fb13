import assert from 'node:assert/strict';
import { guestDisks } from '../../support/disk-pool.ts';
import type { MoveScene } from './move-scene.ts';

/** The pools of the driver that is killed in a move: of images, and of two disks. */
export function sceneOf(directory: string): MoveScene {
  const given = guestDisks();
  const disk = (name: string) => given.get(name) ?? assert.fail(name);
  const disks = new Map([
    ['one', disk('small')],
    ['two', disk('small-too')],
  ]);
  return { directory, disks, images: '/xfs/killed' };
}
