import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Unavailable } from '../../src/volume/errors.ts';
import { repeatable, SeededRandom } from '../crash/seeded-random.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import { id, idOf, mib, Node, refuseCommits, sized, spec } from './following-node.ts';
import { movesOf } from './two-pools.ts';

const names = ['a', 'b', 'c'];
const events = ['away', 'cancel', 'delete', 'elsewhere', 'full', 'order', 'restart'] as const;
const rounds = 6;
const poolNames = ['one', 'two', 'three'];
const pools = poolNames.map((name) => sized(name));

/** No move goes on, neither of the volume nor of a snapshot. */
async function atRest({ mover }: Node): Promise<void> {
  await eventually(() => {
    for (const { job, snapshots } of mover.sights()) {
      assert.notEqual(job.state, 'running');
      assert.notEqual(snapshots?.job.state, 'running');
    }
  });
}

/** The names of the snapshots that people have taken: each is there once, and none that was deleted. */
async function requireOnce(node: Node, digests: ReadonlyMap<string, string>, what: string): Promise<void> {
  const listed = (await node.listed()).map((each) => each.slice(each.indexOf('/') + 1));
  const people = listed.filter((name) => !name.startsWith('move '));
  assert.equal(new Set(people).size, people.length, `one is there twice: ${what}`);
  for (const name of people) assert.ok(digests.has(name), `${name} is there again: ${what}`);
}

describe('snapshots that follow their volume', () => {
  test('are whole and there once, and never come back once deleted, in any order of orders, ends, deletions, restarts and pools that are away', async (t) => {
    const seed = Number(process.env['HOLDFAST_TEST_SEED'] ?? Date.now() % 1_000_000);
    t.diagnostic(`HOLDFAST_TEST_SEED=${seed}`);
    await repeatable(seed, async () => {
      const random = new SeededRandom(seed);
      using scratch = new Scratch('any-order');
      let node = await Node.open(scratch, pools);
      try {
        await node.pools.get('one').create(spec);
        const digests = new Map<string, string>();
        for (let round = 0; round < rounds; round++) {
          for (const name of names.filter((each) => !digests.has(each))) {
            digests.set(name, await node.snapshot(name, randomBytes(2 << 20), BigInt(random.below(40)) * mib));
          }
          const { name: from } = (await node.pools.require(id)).pool;
          const to = random.pick(poolNames.filter((each) => each !== from));
          const done: string[] = [];
          // One that runs, or has ended, refuses some of them.
          const order = (pool = to) => node.mover.start(id, pool, undefined, true).catch((error: Error) => error);
          if (random.chance(0.5)) {
            await node.mover.start(id, to, undefined);
            await atRest(node);
          }
          await order();
          let areAway: string[] = [];
          let commitAgain: (() => void) | undefined;
          const restart = async (away: string[]) => {
            areAway = away;
            commitAgain = undefined;
            await node[Symbol.asyncDispose]();
            node = await Node.open(scratch, pools, away);
          };
          for (let event = 0; event < 6; event++) {
            await delay(random.below(250));
            const [what, name] = [random.pick(events), random.pick(names)];
            done.push(`${what} ${name}`);
            if (what === 'cancel') await node.mover.cancel(id).catch((error: Error) => error);
            if (what === 'order') await order();
            if (what === 'elsewhere') await order(random.pick(poolNames));
            if (what === 'restart') await restart([]);
            // One that is handed over then does not arrive.
            if (what === 'full' && !areAway.includes(to)) commitAgain ??= refuseCommits(node.pools.get(to));
            if (what === 'away') await restart([random.pick(poolNames)]);
            if (what === 'delete' && digests.has(name)) {
              // Refused while the pool is away that has it, or may have a copy of it, and between the two.
              const mayBeRefused = areAway.length > 0 || commitAgain !== undefined;
              const isRefused = (error: Error) => mayBeRefused && error instanceof Unavailable;
              let isDeleted = false;
              await eventually(async () => {
                isDeleted = await node.remove(idOf(name)).then(
                  () => true,
                  (error) => (isRefused(error) ? false : Promise.reject(error)),
                );
              });
              if (isDeleted) digests.delete(name);
              done.push(isDeleted ? 'deleted' : 'refused');
            }
            await requireOnce(node, digests, done.join(', '));
          }
          if (areAway.length > 0) await restart([]);
          commitAgain?.();
          await atRest(node);
          await order();
          await atRest(node);
          for (const pool of node.pools.all()) {
            await eventually(async () =>
              assert.deepEqual(await movesOf(pool).snapshots.arriving(), [], done.join(', ')),
            );
          }
          const expected = [...digests.keys()].map((name) => `${to}/${name}`).sort();
          assert.deepEqual(await node.listed(), expected, done.join(', '));
          for (const [name, digest] of digests) assert.equal(await node.digest(name), digest, done.join(', '));
        }
      } finally {
        await node[Symbol.asyncDispose]();
      }
    });
  });
});
