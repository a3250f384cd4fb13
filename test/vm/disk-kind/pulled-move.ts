import assert from 'node:assert/strict';
import { SeededRandom } from '../../crash/seeded-random.ts';
import { eventually } from '../../support/eventually.ts';
import { assertKeepsake, leaveKeepsake } from '../faults/keepsake.ts';
import type { GuestNode } from '../node/guest-node.ts';
import { usedVolume } from '../node/life.ts';
import type { NodeSetup, StartedNode } from '../node/start-node.ts';
import { linkOf, prepareLinks, relink } from './links.ts';

const patienceMs = 900_000;
const poolNames = ['small', 'large', 'spare'] as const;
const section = (name: string) => `  ${name}: { kind: disk, device: ${linkOf(name)} }`;

export const pulledSetup: NodeSetup = {
  config: `defaultPool: small\nexpansion: controller\npools:\n${poolNames.map(section).join('\n')}\n`,
  pools: poolNames,
  disks: [
    { name: 'small', sizeGiB: 0.25, bus: 'scsi' },
    { name: 'large', sizeGiB: 0.5, bus: 'scsi' },
    { name: 'spare', sizeGiB: 0.5, bus: 'scsi' },
  ],
  prepare: prepareLinks(3),
};

interface Sight {
  readonly id: string;
  readonly state: string;
  readonly phase?: string;
  readonly doneBytes?: string;
  readonly reason?: string;
}

async function sightOf(node: GuestNode, id: string): Promise<Sight> {
  const { stdout } = await node.command('move status --json');
  const { moves } = JSON.parse(stdout) as { readonly moves: readonly Sight[] };
  return moves.find((move) => move.id === id) ?? assert.fail(stdout);
}

async function succeeds(node: GuestNode, words: string): Promise<string> {
  const { code, stderr, stdout } = await node.command(words);
  assert.equal(code, 0, stderr);
  return stdout;
}

/** The disk that a volume moves to is pulled in the middle of its copy, and put back; then the one that it leaves. */
export async function moveFromPulled({ disks, node }: StartedNode): Promise<void> {
  const volume = await usedVolume(node, 'small');
  const { id } = volume;
  await leaveKeepsake(node, volume);
  await volume.leave();
  const disk = (name: string) => disks.find((each) => each.name === name) ?? assert.fail(name);
  const begin = async (to: string) => {
    await succeeds(node, `move ${id} --to-pool ${to} --limit 4Mi --json`);
    await eventually(async () => {
      const { doneBytes = '0', phase, reason } = await sightOf(node, id);
      assert.ok(phase === 'switching' && BigInt(doneBytes) > 0n, `${reason}`);
    }, patienceMs);
  };
  const pull = async (name: string) => {
    await node.vm.pull(disk(name), new SeededRandom(1));
    await relink(node, 2);
    await eventually(async () => assert.match((await sightOf(node, id)).reason ?? '', /./), patienceMs);
  };
  const putBack = async (name: string) => {
    await node.vm.putBack(disk(name));
    await relink(node, 3);
    await eventually(async () => {
      const { stdout } = await node.command('pools');
      assert.match(stdout, new RegExp(`^${name} .* open `, 'm'));
    }, patienceMs);
  };
  /** A move that failed is ordered again. */
  const isDone = async (to: string) => {
    await eventually(async () => {
      const { reason, state } = await sightOf(node, id);
      if (state === 'failed') await node.command(`move cancel ${id}`);
      if (state === 'failed' || state === 'cancelled') await node.command(`move ${id} --to-pool ${to} --json`);
      assert.equal(state, 'done', `${reason}`);
    }, patienceMs);
    await volume.use();
    await assertKeepsake(node, volume);
    await volume.leave();
  };

  const plan = await succeeds(node, `move ${id} --to-pool large --dry-run`);
  assert.match(plan, /It is copied while it is not in use, as pool small cannot tell what changes meanwhile\./);
  assert.match(plan, /It grows from 252Mi to 508Mi/);
  await begin('large');
  await assert.rejects(volume.use(), /is moving out of pool small/);
  await pull('large');
  // Its pod need not wait for the other disk.
  await eventually(() => volume.use(), patienceMs);
  await assertKeepsake(node, volume);
  await volume.leave();
  await putBack('large');
  await isDone('large');

  const refused = await node.command(`move ${id} --to-pool small --dry-run`);
  assert.notEqual(refused.code, 0);
  await succeeds(node, `trash purge ${id}`);
  const tooSmall = await node.command(`move ${id} --to-pool small --dry-run`);
  assert.match(tooSmall.stderr, /and the pool's disk has \d+ for its volume|still being wiped/);
  await begin('spare');
  await pull('large');
  await putBack('large');
  await isDone('spare');
}
