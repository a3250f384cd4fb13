import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { AdminClient } from '../../../src/admin/client.ts';
import { SeededRandom } from '../../crash/seeded-random.ts';
import type { VolatileDisk } from '../disk/volatile-disk.ts';
import { type NodeSetup, startNode } from '../node/start-node.ts';
import type { Deed, Place } from './deed.ts';

export interface Answers {
  readonly deeds: readonly Deed[];
  /** For each deed one disk and one pool, both of its name, so that no flush of one helps another. */
  readonly setup: NodeSetup;
  /** Of each volume that is made anew. */
  readonly encryption?: 'luks2' | undefined;
  /** A command of the shell after each boot. */
  readonly afterBoot: string;
}

/** Cuts the power of each disk at the moment of an answer, then that of the machine, and looks at what was answered. */
export async function cutAtAnswers(t: TestContext, { afterBoot, deeds, encryption, setup }: Answers): Promise<void> {
  await using started = await startNode(t, setup);
  const { disks, node } = started;
  node.vm.tunnel(`${node.dataDirectory}/admin.sock`, `${disks[0]?.socketPath}-admin`);
  const admin = new AdminClient(`${disks[0]?.socketPath}-admin`);
  const placeOf = ({ name }: Deed): Place => ({ node, pool: name, admin, encryption });
  for (const deed of deeds) await deed.prepare?.(placeOf(deed));
  await node.vm.run('sync');

  await Promise.all(deeds.map((deed) => actAndCut(deed, placeOf(deed), disks)));
  await node.vm.cutPower(new SeededRandom(1));
  node.forget();
  await node.vm.boot();
  await node.mount();
  await node.vm.run(afterBoot);
  await node.start();
  for (const deed of deeds) await t.test(deed.name, () => deed.check(placeOf(deed)));
}

/** From its answer on, nothing reaches the disk. */
async function actAndCut(deed: Deed, place: Place, disks: readonly VolatileDisk[]): Promise<void> {
  await deed.act(place);
  const disk = disks.find(({ name }) => name === deed.name) ?? assert.fail();
  disk.loseAll();
}
