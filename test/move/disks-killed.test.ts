import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { eventually } from '../support/eventually.ts';
import { volumeSpec } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';
import { pointsOf } from '../vm/disk-kind/points.ts';
import { deviceOf, digestOf, write } from './devices.ts';
import { openKilledNode } from './killed-disks.ts';

const driver = fileURLToPath(new URL('killed-disk-mover.ts', import.meta.url));
const dataBytes = 20n << 20n;
const spec = volumeSpec('data', { content: { type: 'block' }, provisioning: 'thick', sizeBytes: dataBytes });
const { id } = spec;

describe('a driver that is killed in a move of a volume that is a disk, or becomes one', () => {
  for (const other of ['two', 'images']) {
    test(`between disk and ${other}: before and after each step, the volume is whole and in one pool`, async (t) => {
      using scratch = new Scratch('disks-killed');
      /** @returns the steps; undefined: it was killed */
      const drive = (to: string, point: readonly string[] = []): string[] | undefined => {
        const { signal, status, stderr, stdout } = spawnSync(
          process.execPath,
          [driver, scratch.path, id, to, ...point],
          { encoding: 'utf8' },
        );
        if (signal === 'SIGKILL') return undefined;
        assert.equal(status, 0, `${stderr}\n${stdout}`);
        return JSON.parse(stdout.trim().split('\n').at(-1) ?? '');
      };
      let digest = '';
      /** Ends the last move, looks at what it has left, and prepares the next one. */
      const between = async (place: string, left: string | undefined) => {
        await using node = await openKilledNode(scratch.path);
        if (node.sight(id)?.job.state === 'running') await node.moved(id);
        // It died before the move was noted.
        if (!(await node.placesOf(id)).includes(place)) await node.move(id, place);
        assert.deepEqual(await node.placesOf(id), [place]);
        if (left !== undefined) {
          const source = node.pools.get(left);
          const trashed = await source.trash();
          assert.deepEqual(
            trashed.map(({ record }) => record.id),
            [id],
          );
          await source.purge();
          await eventually(async () => assert.ok((await source.capacity()).availableBytes > 0n));
        }
        await using device = await deviceOf(node, id);
        if (digest !== '') assert.equal(digestOf(device.devicePath), digest);
        write(device.devicePath, randomBytes(4096), BigInt(Math.floor(Math.random() * 19)) << 20n);
        digest = digestOf(device.devicePath);
      };
      {
        await using node = await openKilledNode(scratch.path);
        await node.pools.get('one').create(spec);
      }
      await between('one', undefined);
      const points = new Map<string, [string, string, string][]>();
      for (const [to, from] of [
        [other, 'one'],
        ['one', other],
      ] as const) {
        const steps = drive(to) ?? assert.fail();
        points.set(to, pointsOf(steps));
        await between(to, from);
        t.diagnostic(`to ${to}: ${steps.join(' ')}`);
      }
      for (let from = 'one'; ; ) {
        const to = from === 'one' ? other : 'one';
        const point = points.get(to)?.shift();
        if (point === undefined) break;
        assert.equal(drive(to, point), undefined, `${point}: it was not reached`);
        await between(to, from);
        from = to;
      }
    });
  }
});
