import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { SeededRandom } from '../../crash/seeded-random.ts';
import { DiskUser } from '../disks/disk-user.ts';
import { awaitDisks, startNodeWithDisks } from '../disks/node-with-disks.ts';
import type { GuestNode } from '../node/guest-node.ts';

/** Fewer than disks, so that one can be wiped meanwhile. */
const contents = ['ext4', 'block', 'ext4'] as const;
const diskCount = 4;
const cuts = Number(process.env['HOLDFAST_TEST_CUTS'] ?? 10);
const seed = Number(process.env['HOLDFAST_TEST_SEED'] ?? Math.floor(Math.random() * 2 ** 32));
const mostDeeds = 12;
const mostDelayMs = 400;

async function workUntilCut(node: GuestNode, users: readonly DiskUser[], random: SeededRandom): Promise<number> {
  const cut = new AbortController();
  const wanted = 1 + random.below(mostDeeds);
  let answered = 0;
  let reached: () => void = () => undefined;
  const enough = new Promise<void>((resolve) => {
    reached = resolve;
  });
  const count = () => {
    if (++answered >= wanted) reached();
  };
  const work = Promise.all(users.map((user) => user.work(cut.signal, count)));
  // What fails before the cut is a failure of the test.
  await Promise.race([enough, work]);
  await delay(random.below(mostDelayMs));
  cut.abort();
  await node.vm.cutPower(random);
  node.forget();
  await work;
  return answered;
}

describe('T01 T02: power cuts under volumes that are whole disks', () => {
  test('what was answered is so, and what was synced is there; no disk is lost', async (t) => {
    t.diagnostic(`HOLDFAST_TEST_SEED=${seed} repeats the choices of this run`);
    const random = new SeededRandom(seed);
    await using started = await startNodeWithDisks(t, diskCount);
    const { node } = started;
    const users = contents.map((content) => new DiskUser(node, content));
    let answered = 0;
    for (let count = 0; count < cuts; count++) {
      answered += await workUntilCut(node, users, random);
      await node.vm.boot();
      await node.mount();
      await node.vm.run(awaitDisks(diskCount));
      await node.start();
      const { entries } = await node.client.controller.ListVolumes({});
      const ids = new Set(entries.map(({ volume }) => volume?.volume_id ?? ''));
      const own = new Set(users.map((user) => user.settle(ids)));
      for (const id of ids) assert.ok(own.has(id), `${id} was deleted, or never made, and is there`);
      await Promise.all(users.map((user) => user.check()));
    }
    t.diagnostic(`${cuts} power cuts, ${answered} answers`);
  });
});
