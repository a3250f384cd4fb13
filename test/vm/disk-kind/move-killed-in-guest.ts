/**
 * Runs in the virtual machine: a driver is killed after each step of a move from disk to disk, and before those of its hand-over;
 * or after each of those between images and a disk.
 * node move-killed-in-guest.ts two|images NAME=DEVICE…
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { extname } from 'node:path';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { deviceOf, digestOf, write } from '../../move/devices.ts';
import { blankDisk, guestDisks } from '../../support/disk-pool.ts';
import { volumeSpec } from '../../support/image-pool.ts';
import { Scratch } from '../../support/scratch.ts';
import { sceneOf } from './killed-scene.ts';
import { MovingNode } from './move-scene.ts';
import { pointsOf } from './points.ts';

const driver = fileURLToPath(new URL(`killed-mover${extname(import.meta.url)}`, import.meta.url));
const [other = '', ...given] = process.argv.slice(2);
const dataBytes = 20n << 20n;
/** The steps between the draft and the trash: each changes which copy can be used. */
const handOver = ['move/draft', 'move/generation', 'move/give', 'move/commit', 'move/settle'];

describe('a driver that is killed in a move of a volume that is a disk, or becomes one', () => {
  test(`between disk and ${other}: whichever step was the last, the volume is whole and in one pool`, async (t) => {
    for (const name of ['small', 'small-too']) blankDisk(guestDisks().get(name) ?? assert.fail(name));
    using scratch = new Scratch('killed');
    const scene = sceneOf(scratch.path);
    const spec = volumeSpec(`killed-${other}`, {
      content: { type: 'block' },
      provisioning: 'thick',
      sizeBytes: dataBytes,
    });
    const { id } = spec;
    /** @returns the steps; undefined: it was killed */
    const drive = (to: string, point: readonly string[] = []): string[] | undefined => {
      const words = [driver, scratch.path, id, to, ...point, ...given];
      const { signal, status, stderr, stdout } = spawnSync(process.execPath, words, { encoding: 'utf8' });
      if (signal === 'SIGKILL') return undefined;
      assert.equal(status, 0, `${stderr}\n${stdout}`);
      return JSON.parse(stdout.trim().split('\n').at(-1) ?? '');
    };
    let digest = '';
    /** Ends the last move, looks at what it has left, and prepares the next one. */
    const between = async (place: string, left: string | undefined) => {
      await using node = await MovingNode.open(scene);
      if (node.sight(id)?.job.state === 'running') await node.moved(id);
      // It died before the move was noted.
      if ((await node.placeOf(id)) !== place) await node.move(id, place);
      assert.equal(await node.placeOf(id), place);
      if (left !== undefined) {
        const trashed = await node.pools.get(left).trash();
        assert.deepEqual(
          trashed.map(({ record }) => record.id),
          [id],
        );
        await node.purge(left);
      }
      await using device = await deviceOf(node, id);
      if (digest !== '') assert.equal(digestOf(device.devicePath), digest);
      write(device.devicePath, randomBytes(4096), BigInt(Math.floor(Math.random() * 19)) << 20n);
      digest = digestOf(device.devicePath);
    };
    {
      await using node = await MovingNode.open(scene);
      await node.pools.get('one').create(spec);
    }
    await between('one', undefined);
    const steps = new Map<string, string[]>();
    for (const [to, from] of [
      [other, 'one'],
      ['one', other],
    ] as const) {
      steps.set(to, drive(to) ?? assert.fail());
      await between(to, from);
      t.diagnostic(`to ${to}: ${steps.get(to)?.join(' ')}`);
    }
    const pointsTo = (to: string) =>
      pointsOf(steps.get(to) ?? []).filter(([when, step]) =>
        // From disk to disk, both ways are one.
        other === 'two' ? when === 'after' || handOver.includes(step) : when === 'after' && handOver.includes(step),
      );
    const queues = new Map([
      [other, pointsTo(other)],
      ['one', other === 'two' ? [] : pointsTo('one')],
    ]);
    for (let from = 'one'; ; ) {
      const to = from === 'one' ? other : 'one';
      const point = queues.get(other === 'two' ? other : to)?.shift();
      if (point === undefined) break;
      assert.equal(drive(to, point), undefined, `${point}: it was not reached`);
      await between(to, from);
      from = to;
    }
  });
});
