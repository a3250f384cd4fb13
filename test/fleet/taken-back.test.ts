import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, beforeEach, describe, test } from 'node:test';
import * as grpc from '@grpc/grpc-js';
import { pino } from 'pino';
import { z } from 'zod';
import { adminService } from '../../src/admin/service.ts';
import { changeFleet } from '../../src/cli/fleet/change.ts';
import type { Output } from '../../src/cli/output/output.ts';
import { contract, decode, encode } from '../../src/csi/contract.ts';
import type * as wire from '../../src/csi/generated/types.ts';
import type { FleetMoves, HandedOver } from '../../src/fleet/controller/fleet-moves.ts';
import { FleetState } from '../../src/fleet/controller/fleet-state.ts';
import { TakenBackKeeper, type TakenBackKeeperOptions } from '../../src/fleet/controller/keepers/taken-back-keeper.ts';
import { LinkLost, PassedOn, TooLate } from '../../src/fleet/controller/passed-on.ts';
import type { Sessions } from '../../src/fleet/controller/sessions.ts';
import type { KubernetesApi } from '../../src/fleet/kubernetes/api.ts';
import { SecretNotes } from '../../src/fleet/kubernetes/secret-notes.ts';
import {
  confirmTakenBack,
  dropTakenBack,
  noteTakingBack,
  readTakenBack,
  settleTakenBack,
  takingBackMs,
} from '../../src/fleet/kubernetes/taken-back.ts';
import type { ChangeWishes } from '../../src/fleet/view/request.ts';
import type { CopySight } from '../../src/move/peers.ts';
import { FailedPrecondition, InvalidArgument, Unavailable } from '../../src/volume/errors.ts';
import { volumeIdFor } from '../../src/volume/id.ts';
import { topologyKey } from '../../src/volume/topology.ts';
import { Broker, blockSpec, filled, introduce, MovingNode, moveAlong, order } from '../move/two-nodes.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import { ApiDouble } from './support/api-double.ts';
import { tell } from './support/told-fleet.ts';

const place = { namespace: 'holdfast', name: 'holdfast-controller' };
const volumeId = volumeIdFor('b', 'data', 'data');
const createdAt = '2026-11-01T10:00:00.000Z';

const usual: Omit<ChangeWishes, 'change' | 'node' | 'volume'> = {
  ...{ lostNode: undefined, lostPool: undefined, toPool: undefined, limitBytesPerSecond: undefined },
  withSnapshots: false,
  ...{ json: true, progress: false, dryRun: false, evenSo: false, undo: false },
};

/** The PersistentVolume of the volume, which names that node. */
function pvOn(node: string, volumeHandle: string = volumeId): object {
  const expression = { key: topologyKey, operator: 'In', values: [node] };
  return {
    csi: { driver: 'holdfast.csi.dev', volumeHandle },
    nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [expression] }] } },
  };
}

/** Node a takes the volume back from node b, and the controller has not heard of the end of that. */
interface Asking {
  readonly method: string;
}

/** The answer of a node to a call: it would do whatever it is asked, and fails when it does it. */
async function checkedOr(method: string, failure: Error): Promise<Buffer> {
  if (!method.includes('/Check')) throw failure;
  return encode(contract.lookupType('holdfast.fleet.v1.ChangeAnswer'), { result: '{}' });
}

describe('a note that a volume may have been taken back', () => {
  const scratch = new Scratch('taken-back');
  let double: ApiDouble;
  let api: KubernetesApi;
  before(async () => {
    double = await ApiDouble.start();
    api = double.client(scratch);
  });
  after(async () => {
    api.close();
    await double[Symbol.asyncDispose]();
    scratch[Symbol.dispose]();
  });
  beforeEach(async () => {
    double.known.objects.set('secrets/holdfast-controller', {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: place.name, namespace: place.namespace, resourceVersion: '1' },
      data: {},
    });
  });

  type Asked = TakenBackKeeperOptions['moves'];

  function keeperWith({
    noteAt = async () => ({ generation: 1 }),
    ...asked
  }: Omit<Asked, 'noteAt'> & Partial<Asked>): TakenBackKeeper {
    const moves = { ...asked, noteAt };
    const state = {
      believe: () => undefined,
      doubted: () => ['b'],
      hasDoubted: () => false,
      takenBack: () => undefined,
      watch: () => () => undefined,
    };
    const now = () => Date.now() + takingBackMs + 1;
    return new TakenBackKeeper({ api, place, state, moves, log: pino({ level: 'silent' }), now });
  }

  /** A look by which node a says this of its copy. @returns what the nodes that were lost hear of */
  async function look(copy: CopySight, generation = 1): Promise<object[]> {
    const heard: object[] = [];
    const keeper = keeperWith({
      copyAt: async () => copy,
      noteAt: async () => ({ generation }),
      async outdate(_node, word) {
        heard.push(word);
        return { isOutdated: true };
      },
    });
    await keeper.look();
    return heard;
  }

  /** A note as a controller has left it. */
  async function put(note: object, id = volumeId): Promise<void> {
    const notes = new SecretNotes({ api, place, key: 'taken-back', schema: z.unknown() });
    await notes.change((known) => known.set(id, note) !== undefined);
  }

  const noteNow = () => noteTakingBack(api, place, { volumeId, node: 'a', lostNode: 'b' });
  const noted = async () => (await readTakenBack(api, place)).get(volumeId);

  test('counts once the copy is the volume, or has gone on from there, and says which volume that is', async () => {
    for (const copy of [
      { generation: 7, isVolume: true, createdAt },
      { generation: 8, isVolume: false, elsewhere: 'c', createdAt },
    ]) {
      const { at } = await noteNow();
      const heard = await look(copy);
      const { generation } = copy;
      assert.deepEqual(heard, [{ volumeId, generation, node: 'a', takenBackAt: at, createdAt }]);
      assert.equal((await noted())?.generation, generation);
    }
  });

  test('is confirmed although the answer of the node was lost, and although it has moved on before the look', async () => {
    using disks = new Scratch('moved-on');
    const broker = new Broker();
    await using a = await MovingNode.open(disks, broker, 'a');
    await using b = await MovingNode.open(disks, broker, 'b');
    await using c = await MovingNode.open(disks, broker, 'c');
    const { id } = blockSpec;
    await filled(a);
    await order(a, b, id);
    assert.equal((await b.ended(id)).job.state, 'done');
    await eventually(async () => assert.equal((await a.pool.trash()).length, 1));
    const { at } = await noteTakingBack(api, place, { volumeId: id, node: 'a', lostNode: 'b' });
    const admin = adminService({ nodeId: 'a', pools: a.pools, objects: a.objects, mover: a.mover });
    await admin.restore({ id, lostNode: 'b' }, { note: () => undefined });
    await order(a, c, id);
    assert.equal((await c.ended(id)).job.state, 'done');
    await eventually(async () => assert.equal(await a.pool.find(id), undefined));
    // Node b is there again.
    const nodes: Readonly<Record<string, MovingNode>> = { a, b, c };
    const keeper = keeperWith({
      copyAt: () => a.mover.copies.look(id),
      outdate: async (node, { generation }) => ({
        isOutdated: (await nodes[node]?.mover.copies.outdate(id, { generation, node: 'a', at })) ?? assert.fail(),
      }),
    });
    await keeper.look();
    await keeper.look();
    const usable = [];
    for (const node of [a, b, c]) if ((await node.pool.find(id)) !== undefined) usable.push(node.name);
    assert.deepEqual(usable, ['c']);
    assert.ok(((await readTakenBack(api, place)).get(id)?.generation ?? 0) > 1);
    assert.equal(await c.mover.copies.outdate(id, { generation: 1_000_000, node: 'a', at }), false);
  });

  test('is confirmed at once, also if the answer to the order was lost', async () => {
    const known = new FleetState();
    known.expect(['a', 'b']);
    known.forget(['b']);
    tell(known, 'a', []);
    const lost = new LinkLost('The link to node a was lost; try again.');
    let copy: CopySight = { generation: 1, isVolume: false, elsewhere: 'b', createdAt };
    const wishes: ChangeWishes = { ...usual, change: 'restore', node: 'a', volume: volumeId, lostNode: 'b' };
    const restore = () =>
      changeFleet(
        {
          ...{ api, place, state: known, driverName: 'holdfast.csi.dev' },
          moves: { list: () => [], handedOver: () => undefined, copyAt: async () => copy } as unknown as FleetMoves,
          sessions: { get: () => ({ calls: { call: () => Promise.reject(lost) } }) } as unknown as Sessions,
        },
        wishes,
        {} as Output,
        new AbortController().signal,
      );
    // It may be carried out yet.
    await assert.rejects(restore(), lost);
    assert.equal((await noted())?.generation, undefined);
    assert.equal((await noted())?.node, 'a');
    copy = { generation: 1_000_002, isVolume: true, createdAt };
    await assert.rejects(restore(), lost);
    assert.equal((await noted())?.generation, 1_000_002);
  });

  test('does not count for less than the one before it', async () => {
    const { at } = await noteNow();
    await confirmTakenBack(api, place, volumeId, { at, generation: 9 });
    await noteTakingBack(api, place, { volumeId, node: 'c', lostNode: 'd', isLost: () => true });
    await look({ generation: 3, isVolume: false, elsewhere: 'a' });
    assert.deepEqual(await noted(), { node: 'a', lostNode: 'b', at, generation: 9 });
  });

  test('stays where the node has no copy by now, and no note', async () => {
    await noteNow();
    assert.deepEqual(await look({ generation: 0, isVolume: false }), []);
    assert.equal((await noted())?.node, 'a');
  });

  test('goes if the volume was never handed over, and the notes of others can be read', async () => {
    const other = volumeIdFor('b', 'data', 'other');
    const { at } = await noteTakingBack(api, place, { volumeId: other, node: 'a', lostNode: 'b' });
    await confirmTakenBack(api, place, other, { at, generation: 7 });
    await noteNow();
    const heard = await look({ generation: 0, isVolume: true, createdAt });
    assert.equal(await noted(), undefined);
    assert.deepEqual(heard, [{ volumeId: other, generation: 7, node: 'a', takenBackAt: at, createdAt: undefined }]);
  });

  test('of another node is not replaced before that node has said that it has not taken it back', async (t) => {
    const { at } = await noteNow();
    const next = { volumeId, node: 'c', lostNode: 'd', isLost: (name: string) => name === 'a' };
    // By the clock of this replica it is an old one.
    t.mock.timers.enable({ apis: ['Date'], now: Date.now() + takingBackMs + 1_000 });
    await assert.rejects(noteTakingBack(api, place, next), { name: 'Unavailable', message: /Node a may be taking/ });
    assert.equal((await noted())?.at, at);
    await noteTakingBack(api, place, { ...next, asked: at });
    assert.equal((await noted())?.node, 'c');
    // Node c is lost by now.
    t.mock.timers.setTime(Date.now() + takingBackMs + 1_000);
    await noteTakingBack(api, place, { volumeId, node: 'a', lostNode: 'c' });
    assert.equal((await noted())?.node, 'a');
  });

  test('is refused where 2,000 others stand, of which none goes', async () => {
    const note = { node: 'a', lostNode: 'b', at: createdAt, generation: 7 };
    const full = new Map(Array.from({ length: 2_000 }, (_, n) => [volumeIdFor('b', 'data', `${n}`), note]));
    const notes = new SecretNotes({ api, place, key: 'taken-back', schema: z.unknown() });
    await notes.change((known) => {
      for (const [id, each] of full) known.set(id, each);
      return true;
    });
    await assert.rejects(noteNow(), { name: 'ResourceExhausted', message: /is not taken back.*no more fit. Remove/ });
    assert.deepEqual(await readTakenBack(api, place), full);
    // It stands already.
    const again = { volumeId: volumeIdFor('b', 'data', '0'), node: 'c', lostNode: 'a' };
    await noteTakingBack(api, place, again);
    assert.equal((await readTakenBack(api, place)).get(again.volumeId)?.node, 'c');
  });

  test('is not written if it could not be read again', async () => {
    const { at } = await noteNow();
    const wrong = confirmTakenBack(api, place, volumeId, { at, generation: 0 });
    await assert.rejects(wrong, {
      name: 'Unavailable',
      message: /taken-back in Secret holdfast-controller cannot be read/,
    });
    assert.equal((await noted())?.at, at);
  });

  test('goes if the copy was not taken back, and the one before it counts all the time', async () => {
    await noteNow();
    await look({ generation: 1, isVolume: false, elsewhere: 'b' });
    assert.equal(await noted(), undefined);
    const { at } = await noteNow();
    await confirmTakenBack(api, place, volumeId, { at, generation: 5 });
    await noteTakingBack(api, place, { volumeId, node: 'c', lostNode: 'a' });
    const heard = await look({ generation: 0, isVolume: false });
    assert.deepEqual(heard, [{ volumeId, generation: 5, node: 'a', takenBackAt: at, createdAt: undefined }]);
    await look({ generation: 5, isVolume: false, elsewhere: 'a' });
    assert.deepEqual(await noted(), { node: 'a', lostNode: 'b', at, generation: 5 });
  });

  for (const [what, error, looks] of [
    ['is in use', new PassedOn(grpc.status.FAILED_PRECONDITION, 'volume x is in use; end that first.'), 1],
    ['is in a pool that hangs', new TooLate('Node b has not answered OutdateCopy in time.'), 2],
  ] as const) {
    test(`a volume that ${what} on the node that comes back keeps it from hearing of no other one`, async () => {
      const ids = ['one', 'two', 'three'].map((name) => volumeIdFor('b', 'data', name));
      for (const id of ids) {
        const { at } = await noteTakingBack(api, place, { volumeId: id, node: 'a', lostNode: 'b' });
        await confirmTakenBack(api, place, id, { at, generation: 7 });
      }
      const [first, ...others] = ids;
      const heard = new Set<string>();
      const keeper = keeperWith({
        copyAt: async () => ({ generation: 0, isVolume: false }),
        async outdate(_node, word) {
          if (word.volumeId === first) throw error;
          heard.add(word.volumeId);
          return { isOutdated: true };
        },
      });
      for (let n = 0; n < looks; n++) await keeper.look();
      assert.deepEqual([...heard], others);
    });
  }

  test('settles once its node, with all pools open, has neither a copy nor a note of the volume', async () => {
    await noteNow();
    const none = { generation: 0, isVolume: false };
    // A driver that is older does not say whether a pool has a copy. One that has a note may have taken the volume back, and lost it.
    await look(none, 0);
    await look({ ...none, isHere: true }, 0);
    await look({ ...none, isHere: false }, 1);
    assert.equal((await noted())?.node, 'a');
    await look({ ...none, isHere: false }, 0);
    assert.equal(await noted(), undefined);
  });

  test('counts the words before it of which nothing is known', async () => {
    assert.equal((await noteNow()).words, undefined);
    assert.equal((await noteNow()).words, 1);
    const { at, words } = await noteNow();
    assert.equal(words, 2);
    await confirmTakenBack(api, place, volumeId, { at, generation: 5 });
    assert.equal((await noteNow()).words, undefined);
  });

  test('that goes lets the one before it stand again, and the next one counts that', async () => {
    const first = await noteNow();
    const second = await noteNow();
    await dropTakenBack(api, place, volumeId, second);
    assert.deepEqual(await noted(), { node: 'a', lostNode: 'b', at: first.at });
    const third = await noteNow();
    assert.equal(third.words, 1);
    await dropTakenBack(api, place, volumeId, third);
    await dropTakenBack(api, place, volumeId, first);
    assert.equal(await noted(), undefined);
  });

  test('of an earlier controller that counts others stays, as those stand nowhere else', async () => {
    const stands = { node: 'a', lostNode: 'b', at: '2026-01-01T00:00:00.000Z', words: 1 };
    await put(stands);
    await dropTakenBack(api, place, volumeId, stands);
    assert.deepEqual(await noted(), stands);
    const next = await noteNow();
    assert.equal(next.words, 2);
    await dropTakenBack(api, place, volumeId, next);
    await dropTakenBack(api, place, volumeId, stands);
    assert.equal((await noted())?.words, 1);
  });

  test('that is sure by now does not go', async () => {
    const { at } = await noteNow();
    await confirmTakenBack(api, place, volumeId, { at, generation: 5 });
    await dropTakenBack(api, place, volumeId, { at });
    assert.equal((await noted())?.generation, 5);
  });

  test('is one of some of which nothing is known, and no more', async () => {
    for (let n = 0; n <= 20; n++) await noteNow();
    const before = await noted();
    assert.deepEqual([before?.words, before?.replaced?.length, before?.isRenewed], [16, 16, true]);
    const other = { volumeId, node: 'c', lostNode: 'a' };
    await put({ ...before, at: '2026-01-01T00:00:00.000Z' });
    await assert.rejects(noteTakingBack(api, place, other), {
      name: 'Unavailable',
      message: /ordered 16 times to take volume .* and have not said how/,
    });
  });

  test('of a cancel that is given again and again stays one, until its node has said how it has ended', async () => {
    const known = new FleetState();
    known.expect(['a', 'b']);
    for (const node of ['a', 'b']) tell(known, node, []);
    let copy: CopySight = { generation: 1, isVolume: false, elsewhere: 'b', createdAt };
    let answer: Error = new LinkLost('The link to node a was lost; try again.');
    const calls = {
      call: ({ method }: Asking) => checkedOr(method, answer),
      async *stream() {
        yield Buffer.alloc(0);
      },
    };
    const cancel = () =>
      changeFleet(
        {
          ...{ api, place, state: known, driverName: 'holdfast.csi.dev' },
          moves: {
            ...{ list: () => [], handedOver: () => undefined, copyAt: async () => copy, disclaim: async () => 3 },
            noteAt: async () => ({ generation: 0 }),
          } as unknown as FleetMoves,
          sessions: { find: () => ({ calls }), get: () => ({ calls }) } as unknown as Sessions,
        },
        { ...usual, change: 'cancel', node: 'a', volume: volumeId },
        {} as Output,
        new AbortController().signal,
      );
    const refused = new FailedPrecondition('it is used.');
    for (const final of [refused, new InvalidArgument("There is no pool 'data' on this node.")]) {
      answer = final;
      await assert.rejects(cancel(), final);
      assert.equal(await noted(), undefined);
    }
    answer = new LinkLost('The link to node a was lost; try again.');
    for (let n = 0; n < 20; n++) await assert.rejects(cancel(), answer);
    assert.equal((await noted())?.words, undefined);
    answer = refused;
    await assert.rejects(cancel(), refused);
    assert.deepEqual([(await noted())?.node, (await noted())?.generation], ['a', undefined]);
    await look({ generation: 1, isVolume: false, elsewhere: 'b', createdAt });
    assert.equal(await noted(), undefined);
    answer = new LinkLost('The link to node a was lost; try again.');
    await assert.rejects(cancel(), answer);
    copy = { generation: 3, isVolume: true, createdAt };
    await look(copy);
    assert.equal((await noted())?.generation, 3);
  });

  test('is not taken for one of a copy that may be an earlier one', async () => {
    const copy = { volumeId, node: 'a', lostNode: 'b', generation: 5 };
    // Its own words stand against nothing: node a has that copy now.
    await noteNow();
    const { at } = await noteTakingBack(api, place, copy);
    await confirmTakenBack(api, place, volumeId, { at, generation: 7 });
    await assert.rejects(noteTakingBack(api, place, copy), {
      name: 'FailedPrecondition',
      message: /was taken back by node a: the copy on node a is an earlier one/,
    });
    await put({ node: 'c', lostNode: 'a', at: '2026-01-01T00:00:00.000Z' });
    const unsure = { name: 'Unavailable', message: /Node c may have taken volume .*forget-node b, and then --node-is/ };
    await assert.rejects(noteTakingBack(api, place, { ...copy, asked: '2026-01-01T00:00:00.000Z' }), unsure);
    await put({ node: 'a', lostNode: 'b', at: '2026-01-01T00:00:00.000Z', words: 1 });
    await assert.rejects(noteTakingBack(api, place, copy), { name: 'Unavailable', message: /^A node may have taken/ });
    assert.equal((await noted())?.words, 1);
  });

  test('of a volume that was deleted stands against no copy of a later one with its id, and its copies stay earlier ones', async () => {
    const [earlyAt, lateAt] = ['2026-10-01T10:00:00.000Z', createdAt];
    const copy = { volumeId, node: 'a', lostNode: 'b', generation: 1 };
    const first = await noteNow();
    await confirmTakenBack(api, place, volumeId, { at: first.at, generation: 7, createdAt: earlyAt });
    for (const same of [earlyAt, undefined]) {
      await assert.rejects(noteTakingBack(api, place, { ...copy, createdAt: same }), /on node a is an earlier one/);
    }
    const { at } = await noteTakingBack(api, place, { ...copy, createdAt: lateAt });
    // It has moved on from there.
    const heard = await look({ generation: 3, isVolume: false, elsewhere: 'c', createdAt: lateAt });
    assert.deepEqual(
      heard.map((word) => 'generation' in word && word.generation),
      [7, 3],
    );
    const sure = { node: 'a', lostNode: 'b' };
    const deleted = { ...sure, at: first.at, generation: 7, createdAt: earlyAt };
    assert.deepEqual(await noted(), { ...sure, at, generation: 3, createdAt: lateAt, deleted });
    await assert.rejects(noteTakingBack(api, place, { ...copy, createdAt: earlyAt }), {
      name: 'FailedPrecondition',
      message: /was made again since .*: the copy on node a is of a volume that was deleted/,
    });
    const next = await noteTakingBack(api, place, { ...copy, generation: 4, createdAt: lateAt });
    assert.deepEqual(next.deleted, deleted);
    await dropTakenBack(api, place, volumeId, next);
    assert.deepEqual((await noted())?.deleted, deleted);
    // It was made a third time.
    await noteTakingBack(api, place, { volumeId, node: 'a', lostNode: 'b', createdAt: '2026-11-20T10:00:00.000Z' });
    const heardOf = async (copy: CopySight) =>
      (await look(copy)).map((word) => 'generation' in word && word.generation);
    const third = { generation: 5, isVolume: true, createdAt: '2026-11-20T10:00:00.000Z' };
    assert.deepEqual(await heardOf(third), [3, 7, 5]);
    await dropTakenBack(api, place, volumeId, await noteTakingBack(api, place, { volumeId, node: 'c', lostNode: 'a' }));
    assert.deepEqual(await heardOf(third), [3, 7, 5]);
    for (let n = 0; n < 10; n++) {
      const { at: again } = await noteTakingBack(api, place, { volumeId, node: 'a', lostNode: 'b' });
      await confirmTakenBack(api, place, volumeId, { at: again, generation: 10 + n, createdAt: `${n}` });
    }
    // Eight are kept.
    assert.deepEqual(await heardOf(third), [18, 17, 16, 15, 14, 13, 12, 11, 19]);
  });

  test('is made for no cancel by which no copy becomes the volume, as its source is lost, unless the driver is older', async () => {
    const known = new FleetState();
    known.expect(['a', 'b', 'c']);
    tell(known, 'b', []);
    const moving = { id: volumeId, from: 'data', to: 'data', fromNode: 'a', state: 'running', startedAt: createdAt };
    const part = contract.lookupType('holdfast.fleet.v1.LookPart');
    const answer = contract.lookupType('holdfast.fleet.v1.ChangeAnswer');
    const sent: string[] = [];
    let copy: CopySight = { generation: 0, isVolume: false, isHere: false };
    let isOlder = false;
    const calls = {
      async call({ method }: { readonly method: string }) {
        sent.push(method.slice(method.lastIndexOf('/') + 1));
        if (isOlder) throw new PassedOn(grpc.status.UNIMPLEMENTED, 'no such call.');
        return encode(answer, { result: JSON.stringify({ ...moving, state: 'cancelled', endedAt: createdAt }) });
      },
      async *stream() {
        yield encode(part, { items: [JSON.stringify(moving)] });
      },
    };
    const cancel = () =>
      changeFleet(
        {
          ...{ api, place, state: known, driverName: 'holdfast.csi.dev' },
          moves: { list: () => [], handedOver: () => undefined, copyAt: async () => copy } as unknown as FleetMoves,
          sessions: { find: () => ({ calls }), get: () => ({ calls }) } as unknown as Sessions,
        },
        { ...usual, change: 'cancel', node: 'b', volume: volumeId, lostNode: 'a' },
        { line: () => undefined } as unknown as Output,
        new AbortController().signal,
      );
    await assert.rejects(cancel(), { name: 'FailedPrecondition', message: /forget-node a comes first/ });
    known.forget(['a']);
    // It makes no copy the volume, so that nodes which are away do not matter.
    await cancel();
    assert.deepEqual([sent, await noted()], [['GiveUpMove'], undefined]);
    tell(known, 'c', [volumeId]);
    await assert.rejects(cancel(), { name: 'FailedPrecondition', message: /is on node c by now/ });
    tell(known, 'c', []);
    // The volume has come: an earlier copy of node a, on a disk as it was before, is used no more.
    copy = { generation: 1, isVolume: true, isHere: true };
    await cancel();
    assert.deepEqual([sent.pop(), (await noted())?.generation], ['CancelMove', 1]);
    isOlder = true;
    copy = { generation: 0, isVolume: false, isHere: false };
    await assert.rejects(cancel(), { message: /is older and does not take this/ });
    assert.deepEqual(sent.slice(1), ['GiveUpMove', 'CancelMove']);
  });

  test('of a node that is forgotten by now does not stand against another word, which makes its copy an earlier one', async () => {
    const known = new FleetState();
    known.expect(['a', 'b', 'c']);
    known.forget(['b']);
    for (const node of ['a', 'c']) tell(known, node, []);
    await put({ node: 'c', lostNode: 'b', at: '2026-01-01T00:00:00.000Z' });
    const asked: string[] = [];
    const orders: wire.ChangeRequest[] = [];
    const changeType = contract.lookupType('holdfast.fleet.v1.ChangeRequest');
    const calls = {
      async call({ request }: { readonly request: Buffer }) {
        orders.push(decode<wire.ChangeRequest>(changeType, request));
        throw new FailedPrecondition('it is used.');
      },
    };
    const restore = () =>
      changeFleet(
        {
          ...{ api, place, state: known, driverName: 'holdfast.csi.dev' },
          moves: {
            list: () => [],
            handedOver: () => undefined,
            async copyAt(node: string) {
              asked.push(node);
              if (node === 'c') throw new Unavailable('Node c is away; try again when it is back.');
              return { generation: 1, isVolume: false, isHere: false };
            },
          } as unknown as FleetMoves,
          sessions: { get: () => ({ calls }) } as unknown as Sessions,
        },
        { ...usual, change: 'restore', node: 'a', volume: volumeId, lostNode: 'b' },
        {} as Output,
        new AbortController().signal,
      );
    await assert.rejects(restore(), { name: 'Unavailable', message: /Node c is away/ });
    known.away('c');
    known.forget(['b', 'c']);
    await assert.rejects(restore(), /it is used/);
    assert.deepEqual([asked, orders.map(({ words }) => words)], [['a', 'a', 'c', 'a', 'a', 'a', 'a'], [1]]);
  });

  test('goes at once if the copy still waited at its target, and the one before it stands again', async () => {
    const known = new FleetState();
    known.expect(['a', 'b']);
    for (const node of ['a', 'b']) tell(known, node, []);
    const moving = { id: volumeId, from: 'data', to: 'data', fromNode: 'a', state: 'failed', startedAt: createdAt };
    const part = contract.lookupType('holdfast.fleet.v1.LookPart');
    const answer = contract.lookupType('holdfast.fleet.v1.ChangeAnswer');
    let isUncommitted: true | undefined = true;
    const calls = {
      call: async () => encode(answer, { result: JSON.stringify({ ...moving, state: 'cancelled', isUncommitted }) }),
      async *stream() {
        yield encode(part, { items: [JSON.stringify(moving)] });
      },
    };
    const copies: CopySight[] = [];
    const cancel = async () => {
      const left: CopySight = { generation: 7, isVolume: false, isHere: true, elsewhere: 'b', createdAt };
      copies.push(left, left);
      copies.push({ generation: 9, isVolume: true, isHere: true, createdAt });
      await changeFleet(
        {
          ...{ api, place, state: known, driverName: 'holdfast.csi.dev' },
          moves: {
            ...{ list: () => [], handedOver: () => undefined, beforeCancel: async () => undefined },
            copyAt: async (node: string) =>
              node === 'a' ? copies.shift() : { generation: 0, isVolume: false, isHere: false },
          } as unknown as FleetMoves,
          sessions: { find: () => ({ calls }), get: () => ({ calls }) } as unknown as Sessions,
        },
        { ...usual, change: 'cancel', node: 'b', volume: volumeId },
        { line: () => undefined } as unknown as Output,
        new AbortController().signal,
      );
    };
    await cancel();
    assert.equal(await noted(), undefined);
    const { at } = await noteNow();
    await confirmTakenBack(api, place, volumeId, { at, generation: 5, createdAt });
    await cancel();
    assert.deepEqual(await noted(), { node: 'a', lostNode: 'b', at, generation: 5, createdAt });
    isUncommitted = undefined;
    await cancel();
    assert.equal((await noted())?.generation, 9);
  });

  test('is made although the PersistentVolume is behind, if the node that it names has handed over this very copy', async () => {
    const known = new FleetState();
    known.expect(['a', 'b', 'c']);
    for (const node of ['a', 'b', 'c']) tell(known, node, []);
    const copy: CopySight = { generation: 1, isVolume: false, isHere: true, elsewhere: 'b', createdAt };
    let handed: HandedOver | undefined = { at: 'a', generation: 1 };
    const sent = new FailedPrecondition('it was sent.');
    const calls = {
      call: () => Promise.reject(sent),
      async *stream() {
        yield Buffer.alloc(0);
      },
    };
    const items = [{ metadata: { name: 'pv' }, spec: pvOn('c') }];
    double.known.answers.set('/persistentvolumes', [200, { metadata: {}, items }]);
    const cancel = () =>
      changeFleet(
        {
          ...{ api, place, state: known, driverName: 'holdfast.csi.dev' },
          moves: {
            ...{ list: () => [], handedOver: () => undefined, copyAt: async () => copy, disclaim: async () => 4 },
            noteAt: async () => ({ generation: 0 }),
            handedOverBy: async () => handed,
          } as unknown as FleetMoves,
          sessions: { find: () => ({ calls }), get: () => ({ calls }) } as unknown as Sessions,
        },
        { ...usual, change: 'cancel', node: 'a', volume: volumeId },
        {} as Output,
        new AbortController().signal,
      );
    await assert.rejects(cancel(), sent);
    const refused = { name: 'FailedPrecondition', message: /may be on node c, which its PersistentVolume names/ };
    for (const other of [
      undefined,
      { at: 'b', generation: 1 },
      { at: 'a', generation: 0 },
      { at: 'a', generation: 2 },
    ]) {
      handed = other;
      await assert.rejects(cancel(), refused);
    }
    double.known.answers.delete('/persistentvolumes');
  });

  test('of a third node, which is not lost, stands against each word of another one, unless the copy is later', async () => {
    const fleet = (...lost: readonly string[]) => {
      const state = new FleetState();
      state.expect(['a', 'c', 'e']);
      state.forget(lost);
      for (const node of ['a', 'c', 'e']) if (!lost.includes(node)) tell(state, node, []);
      return state;
    };
    let known = fleet();
    let trashed = { generation: 2, elsewhere: 'c', createdAt };
    const sent = new FailedPrecondition('it was sent.');
    const call = ({ method }: Asking) => checkedOr(method, sent);
    const restore = (changes: Partial<ChangeWishes>) =>
      changeFleet(
        {
          ...{ api, place, state: known, driverName: 'holdfast.csi.dev' },
          moves: {
            ...{
              list: () => [],
              handedOver: () => undefined,
              disclaim: async () => 5,
              handedOverBy: async () => undefined,
            },
            copyAt: async () => ({ generation: 1, isVolume: false, isHere: false, elsewhere: 'c', trashed }),
            noteAt: async () => ({ generation: 0 }),
          } as unknown as FleetMoves,
          sessions: { get: () => ({ calls: { call } }) } as unknown as Sessions,
        },
        { ...usual, change: 'restore', node: 'a', volume: volumeId, ...changes },
        {} as Output,
        new AbortController().signal,
      );
    const { at } = await noteTakingBack(api, place, { volumeId, node: 'e', lostNode: 'c' });
    await confirmTakenBack(api, place, volumeId, { at, generation: 1_000_002, createdAt });
    const withoutPool = { lostPool: 'data' };
    const refused = { name: 'FailedPrecondition', message: /was taken back by node e, and the copy on node a is/ };
    await assert.rejects(restore(withoutPool), refused);
    assert.equal((await noted())?.node, 'e');
    // It has come from there since.
    trashed = { ...trashed, generation: 1_000_003 };
    await assert.rejects(restore(withoutPool), sent);
    trashed = { ...trashed, generation: 2 };
    known = fleet('c');
    await assert.rejects(restore({ lostNode: 'c' }), refused);
    trashed = { ...trashed, createdAt: '2026-10-01T10:00:00.000Z' };
    await assert.rejects(restore({ lostNode: 'c' }), /was made again since the one of this copy/);
    trashed = { ...trashed, createdAt };
    known = fleet('c', 'e');
    await assert.rejects(restore({ lostNode: 'c' }), sent);
  });

  test('of a third node, which is not lost, stands against the copy that has come from a node that is', async () => {
    const known = new FleetState();
    known.expect(['a', 'c', 'e']);
    known.forget(['c']);
    for (const node of ['a', 'e']) tell(known, node, []);
    let copyOf: object | undefined = { generation: 2, createdAt };
    let copy: CopySight = { generation: 0, isVolume: false, isHere: false };
    const part = contract.lookupType('holdfast.fleet.v1.LookPart');
    const sent = new FailedPrecondition('it was sent.');
    const calls = {
      call: () => Promise.reject(sent),
      async *stream() {
        const moving = { id: volumeId, from: 'data', to: 'data', fromNode: 'c', state: 'failed', startedAt: createdAt };
        yield encode(part, { items: [JSON.stringify({ ...moving, copyOf })] });
      },
    };
    const finish = () =>
      changeFleet(
        {
          ...{ api, place, state: known, driverName: 'holdfast.csi.dev' },
          moves: {
            list: () => [],
            handedOver: () => undefined,
            copyAt: async () => copy,
            noteAt: async () => ({ generation: 0 }),
          } as unknown as FleetMoves,
          sessions: { find: () => ({ calls }), get: () => ({ calls }) } as unknown as Sessions,
        },
        { ...usual, change: 'finish', node: 'a', volume: volumeId, lostNode: 'c' },
        {} as Output,
        new AbortController().signal,
      );
    const { at } = await noteTakingBack(api, place, { volumeId, node: 'e', lostNode: 'c' });
    const earlier = { at, createdAt, generation: 5, lostNode: 'c', node: 'e' };
    await confirmTakenBack(api, place, volumeId, earlier);
    const refused = { name: 'FailedPrecondition', message: /was taken back by node e, and the copy on node a is an/ };
    await assert.rejects(finish(), refused);
    copyOf = { generation: 2, createdAt: '2026-10-01T10:00:00.000Z' };
    await assert.rejects(finish(), /was made again since the one of this copy/);
    // A driver that is older does not say which copy it is.
    copyOf = undefined;
    await assert.rejects(finish(), { ...refused, message: /the copy on node a is not known to be a later one/ });
    assert.deepEqual(await noted(), earlier);
    // It has come from there since.
    copyOf = { generation: 6, createdAt };
    await assert.rejects(finish(), sent);
    // The same order again, which has made it the volume.
    await put({ node: 'a', lostNode: 'c', at, earlier });
    copyOf = undefined;
    copy = { generation: 1_000_006, isVolume: true, isHere: true, createdAt };
    await assert.rejects(finish(), sent);
    // Node e may have taken it back, and a disk of it is away.
    const long = '2026-01-01T00:00:00.000Z';
    await put({ node: 'e', lostNode: 'c', at: long });
    copyOf = { generation: 2, createdAt };
    copy = { generation: 0, isVolume: false, isHere: false };
    const unsure = { name: 'Unavailable', message: /^Node e may have taken volume .* forget-node e, and then this/ };
    await assert.rejects(finish(), unsure);
    assert.deepEqual(await noted(), { node: 'e', lostNode: 'c', at: long });
    known.away('e');
    known.forget(['c', 'e']);
    await assert.rejects(finish(), sent);
  });

  test('is not made over a node to which the volume has come back, also once its moves are forgotten', async () => {
    using disks = new Scratch('came-back');
    const broker = new Broker();
    await using a = await MovingNode.open(disks, broker, 'a');
    await using b = await MovingNode.open(disks, broker, 'b');
    await using c = await MovingNode.open(disks, broker, 'c');
    const { id } = blockSpec;
    await filled(c);
    await moveAlong(id, c, a, b, c);
    // Node c has the volume, and its disk is away; node b is lost.
    const known = new FleetState();
    known.expect(['a', 'b', 'c']);
    known.forget(['b']);
    for (const node of ['a', 'c']) tell(known, node, []);
    const items = [{ metadata: { name: 'pv' }, spec: pvOn('c', id) }];
    double.known.answers.set('/persistentvolumes', [200, { metadata: {}, items }]);
    const nodes: Readonly<Record<string, MovingNode>> = { a, b, c };
    const sent = new FailedPrecondition('it was sent.');
    const restore = () =>
      changeFleet(
        {
          ...{ api, place, state: known, driverName: 'holdfast.csi.dev' },
          moves: {
            ...{ list: () => [], handedOver: () => undefined, copyAt: async () => a.mover.copies.look(id) },
            async handedOverBy(node: string) {
              const { at, generation = 0 } = (await nodes[node]?.mover.copies.noteOf(id)) ?? {};
              return at === undefined ? undefined : { at, generation };
            },
          } as unknown as FleetMoves,
          sessions: { get: () => ({ calls: { call: () => Promise.reject(sent) } }) } as unknown as Sessions,
        },
        { ...usual, change: 'restore', node: 'a', volume: id, lostNode: 'b' },
        {} as Output,
        new AbortController().signal,
      );
    await assert.rejects(restore(), {
      name: 'FailedPrecondition',
      message: /may be on node c, which its PersistentVolume names/,
    });
    assert.deepEqual(await c.mover.copies.noteOf(id), { generation: 3, node: 'node' });
    double.known.answers.delete('/persistentvolumes');
  });

  test('is not made by the word that a pool is lost while another node has a later copy in its trash', async () => {
    using disks = new Scratch('by-way');
    const broker = new Broker();
    const { id } = blockSpec;
    await using a = await MovingNode.open(disks, broker, 'a');
    {
      await using c = await MovingNode.open(disks, broker, 'c', { poolNames: ['data', 'other'] });
      await filled(c);
      await moveAlong(id, c, a);
      const moveId = randomUUID();
      await introduce(a, c, { id, moveId }, 'order');
      await c.mover.startFrom({ id, moveId, node: 'a', to: 'other', ticket: 't', limitBytesPerSecond: undefined });
      assert.equal((await c.ended(id)).job.state, 'done');
      await eventually(async () => assert.equal((await a.mover.copies.look(id)).trashed?.generation, 1));
    }
    // Pool other is lost. The copy in pool data is of the time before node a.
    await using c = await MovingNode.open(disks, broker, 'c', { poolNames: ['data'] });
    const known = new FleetState();
    known.expect(['a', 'c']);
    for (const node of ['a', 'c']) tell(known, node, []);
    const nodes: Readonly<Record<string, MovingNode>> = { a, c };
    const sent = new FailedPrecondition('it was sent.');
    const copyAt = (node: string) => (nodes[node] ?? assert.fail()).mover.copies.look(id);
    const noteAt = (node: string) => (nodes[node] ?? assert.fail()).mover.copies.noteOf(id);
    const restore = (evenSo = false) =>
      changeFleet(
        {
          ...{ api, place, state: known, driverName: 'holdfast.csi.dev' },
          moves: {
            list: () => [],
            handedOver: () => undefined,
            copyAt,
            noteAt,
            handedOverBy: async () => undefined,
          } as unknown as FleetMoves,
          sessions: { get: () => ({ calls: { call: () => Promise.reject(sent) } }) } as unknown as Sessions,
        },
        { ...usual, change: 'restore', node: 'c', volume: id, lostPool: 'other', evenSo },
        {} as Output,
        new AbortController().signal,
      );
    await assert.rejects(restore(), {
      name: 'FailedPrecondition',
      message: /^node a has a later copy of volume .* in its trash: restore that one, with --node a; or purge it/,
    });
    const service = adminService({ nodeId: 'a', pools: a.pools, objects: a.objects, mover: a.mover });
    await service.purge({ id }, { deadline: undefined, note: () => undefined });
    // The copy in pool data is of the time before it was on node a.
    await assert.rejects(restore(), /has moved more than once since this copy of it in the trash: .* --even-so\.$/);
    await assert.rejects(restore(true), sent);
  });

  test('is made for the source of an older driver, which does not say whether it has a copy, once all nodes are there', async () => {
    const known = new FleetState();
    known.expect(['a', 'b', 'c']);
    for (const node of ['a', 'b']) tell(known, node, []);
    const refused = new FailedPrecondition('it is used.');
    let copy: CopySight = { generation: 0, isVolume: false };
    const moving = { id: volumeId, from: 'data', to: 'data', fromNode: 'a', state: 'failed', startedAt: createdAt };
    const part = contract.lookupType('holdfast.fleet.v1.LookPart');
    const calls = {
      call: () => Promise.reject(refused),
      async *stream() {
        yield encode(part, { items: [JSON.stringify(moving)] });
      },
    };
    const cancel = () =>
      changeFleet(
        {
          ...{ api, place, state: known, driverName: 'holdfast.csi.dev' },
          moves: {
            ...{
              list: () => [],
              handedOver: () => undefined,
              endsOf: () => ['a', 'b'],
              beforeCancel: async () => undefined,
            },
            copyAt: async () => copy,
          } as unknown as FleetMoves,
          sessions: { find: () => ({ calls }), get: () => ({ calls }) } as unknown as Sessions,
        },
        { ...usual, change: 'cancel', node: 'b', volume: volumeId },
        {} as Output,
        new AbortController().signal,
      );
    await assert.rejects(cancel(), { name: 'Unavailable', message: /and c is away since/ });
    copy = { ...copy, isHere: false };
    await assert.rejects(cancel(), refused);
    copy = { ...copy, isHere: true };
    await assert.rejects(cancel(), { name: 'Unavailable', message: /and c is away since/ });
  });

  test('keeps an earlier copy in the trash of another node, as long as not all nodes are there', async () => {
    const known = new FleetState();
    known.expect(['a', 'b', 'c']);
    for (const node of ['b', 'c']) tell(known, node, []);
    const sent = new FailedPrecondition('it was sent.');
    const restore = (node: string) =>
      changeFleet(
        {
          ...{ api, place, state: known, driverName: 'holdfast.csi.dev' },
          moves: {
            ...{
              list: () => [],
              handedOver: () => undefined,
              copyAt: async () => ({ generation: 0, isVolume: false, isHere: false }),
            },
          } as unknown as FleetMoves,
          sessions: { get: () => ({ calls: { call: () => Promise.reject(sent) } }) } as unknown as Sessions,
        },
        { ...usual, change: 'restore', node, volume: volumeId },
        {} as Output,
        new AbortController().signal,
      );
    // One that was deleted there asks no node that is away.
    await assert.rejects(restore('b'), sent);
    const { at } = await noteNow();
    for (const isSure of [false, true]) {
      if (isSure) await confirmTakenBack(api, place, volumeId, { at, generation: 7 });
      await assert.rejects(restore('b'), { name: 'Unavailable', message: /and a is away since/ });
    }
    tell(known, 'a', []);
    await assert.rejects(restore('b'), sent);
    known.away('c');
    await assert.rejects(restore('a'), sent);
  });

  test('goes, and the volume is at a node that is away: what takes it back then is later than that', async () => {
    using disks = new Scratch('lost-twice');
    const broker = new Broker();
    await using a = await MovingNode.open(disks, broker, 'a');
    await using c = await MovingNode.open(disks, broker, 'c');
    await using d = await MovingNode.open(disks, broker, 'd');
    const { id } = blockSpec;
    await filled(d);
    await moveAlong(id, d, c, a);
    for (const { pool } of [c, d]) await eventually(async () => assert.equal((await pool.trash()).length, 1));
    const restore = ({ mover, name, objects, pools }: MovingNode, lostNode: string, words?: number) =>
      adminService({ nodeId: name, pools, objects, mover }).restore({ id, lostNode, words }, { note: () => undefined });
    // Node c takes it back from node a, and is away before it says so.
    await put({ node: 'c', lostNode: 'a', at: '2026-01-01T00:00:00.000Z' }, id);
    await restore(c, 'a');
    // Node d is to take it back from node c, and does not.
    await noteTakingBack(api, place, { volumeId: id, node: 'd', lostNode: 'c' });
    await keeperWith({ copyAt: () => d.mover.copies.look(id), outdate: async () => ({ isOutdated: false }) }).look();
    const note = await noteTakingBack(api, place, { volumeId: id, node: 'd', lostNode: 'c' });
    await restore(d, 'c', note.words);
    await settleTakenBack(api, place, id, { note, seen: await d.mover.copies.look(id) });
    const { at = '', generation = 0 } = (await readTakenBack(api, place)).get(id) ?? {};
    assert.equal(await c.mover.copies.outdate(id, { generation, node: 'd', at }), true);
    assert.deepEqual([await c.pool.find(id), (await d.pool.find(id))?.id], [undefined, id]);
  });
});
