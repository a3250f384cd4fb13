import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type * as wire from '../../csi/generated/types.ts';
import { FailedPrecondition, NotFound, ResourceExhausted, Unavailable } from '../../volume/errors.ts';
import { groupIdFor, memberIdFor, snapshotIdFor, volumeIdFor } from '../../volume/id.ts';
import { topologyKey } from '../../volume/topology.ts';
import { FleetState } from '../controller/fleet-state.ts';
import { routeById } from './by-id.ts';
import { sumCapacity } from './capacity.ts';
import { routeCreation } from './create-volume.ts';
import { routeGroup, routeGroupById, routeSnapshot } from './snapshots.ts';

const at = Date.parse('2026-11-22T10:00:00Z');
const volume = (node: string, name: string) => volumeIdFor(node, 'default', name);
const place = (...nodes: string[]) => nodes.map((node) => ({ [topologyKey]: node }));

interface Told {
  /** Names of its volumes. */
  readonly volumes?: readonly string[];
  /** Ids that it has although another node made them. */
  readonly foreign?: readonly string[];
  readonly entries?: readonly Partial<wire.InventoryEntry>[];
  readonly state?: 'told' | 'telling' | 'away';
  /** Pools that failed to open. */
  readonly failed?: readonly string[];
}

function fleetOf(nodes: Readonly<Record<string, Told>>, expected = Object.keys(nodes)): FleetState {
  const fleet = new FleetState(() => at);
  fleet.expect(expected);
  for (const [node, { entries = [], failed = [], foreign = [], state = 'told', volumes = [] }] of Object.entries(
    nodes,
  )) {
    if (state === 'away' && volumes.length + foreign.length + entries.length === 0) continue;
    const inventory = fleet.linked(node);
    const all: Partial<wire.InventoryEntry>[] = [
      ...volumes.map((name) => ({ id: volume(node, name), name })),
      ...foreign.map((id) => ({ id, name: 'theirs' })),
      ...entries,
    ];
    const put = all.map((entry): wire.InventoryEntry => {
      return {
        kind: 'VOLUME',
        id: '',
        name: '',
        pool: 'default',
        source_id: '',
        group_id: '',
        adopted: false,
        ...entry,
      };
    });
    inventory.apply({
      revision: 1n,
      starts: true,
      complete: state !== 'telling',
      put,
      gone: [],
      pools: failed.map((name) => ({ name, kind: '', state: 'failed', reason: 'no disk' })),
    });
    fleet.told(node, inventory);
    if (state === 'away') fleet.away(node);
  }
  // No volume has a PersistentVolume.
  for (const [node, { volumes = [] }] of Object.entries(nodes)) {
    for (const name of volumes)
      if (fleet.owners(volume(node, name)).length === 1) fleet.noteRecorded(volume(node, name), []);
  }
  return fleet;
}

describe('a call for one object', () => {
  test('goes to the node that has it', () => {
    const fleet = fleetOf({ a: { volumes: ['x'] }, b: { volumes: ['y'] }, c: { state: 'away' } });
    assert.deepEqual(routeById(fleet, volume('b', 'y')), { to: 'node', node: 'b' });
  });

  test('for a volume that has moved from another node goes there while a node is away, if its PersistentVolumes say so', () => {
    const moved = volume('a', 'x');
    for (const away of ['a', 'c']) {
      const fleet = fleetOf({ a: {}, b: { foreign: [moved] }, c: {} });
      assert.deepEqual(routeById(fleet, moved), { to: 'node', node: 'b' });
      fleet.away(away);
      assert.throws(() => routeById(fleet, moved), {
        name: 'OwnerInDoubt',
        message: new RegExp(`made on another node than b, which has it, and ${away} is away since .*--resume CLAIM`),
      });
      fleet.noteRecorded(moved, ['b']);
      assert.deepEqual(routeById(fleet, moved), { to: 'node', node: 'b' });
    }
  });

  test('for a volume that two nodes have goes to the one that its PersistentVolumes name, whichever of them has made it', () => {
    const moved = volume('a', 'x');
    for (const nodes of [
      { a: { volumes: ['x'] }, b: { foreign: [moved] } },
      { a: { state: 'away' }, b: { foreign: [moved] }, c: { foreign: [moved] } },
    ] as const) {
      const fleet = fleetOf(nodes);
      assert.throws(() => routeById(fleet, moved), {
        name: 'SeveralOwners',
        message: /is on [ab] and [bc]: one of them/,
      });
      fleet.noteRecorded(moved, ['b']);
      assert.deepEqual(routeById(fleet, moved), { to: 'node', node: 'b' });
      // The PersistentVolume was changed.
      const other = 'volumes' in nodes.a ? 'a' : 'c';
      fleet.noteRecorded(moved, [other]);
      assert.deepEqual(routeById(fleet, moved), { to: 'node', node: other });
    }
  });

  test('for what nobody has it is UNAVAILABLE while a pool of a node has never been open', () => {
    const fleet = fleetOf({ a: { foreign: [volume('b', 'y')] }, b: { failed: ['fast'] } });
    const reason = { code: 'UNAVAILABLE', message: /pool fast of b is not open/ };
    assert.throws(() => routeById(fleet, volume('c', 'x')), reason);
    // A copy of the disk that b does not see now.
    assert.throws(() => routeById(fleet, volume('b', 'y')), reason);
  });

  test('a pool that stays closed holds back only what its node can have made', () => {
    const moved = { id: volume('lost', 'y'), name: 'y' };
    const fleet = fleetOf({ a: { entries: [moved] }, b: { failed: ['fast'] } });
    // The former existence of that node is not known yet.
    assert.throws(() => routeById(fleet, moved.id), /pool fast of b is not open/);
    fleet.forget(['lost']);
    assert.deepEqual(routeById(fleet, moved.id), { to: 'node', node: 'a' });
    const renamed = fleetOf({ a: { entries: [{ ...moved, pool: 'moved' }] }, b: { failed: ['fast'] } });
    renamed.forget(['lost']);
    assert.deepEqual(routeById(renamed, moved.id), { to: 'node', node: 'a' }, 'the pool has another name now');
    const lie = fleetOf({ a: { entries: [{ ...moved, name: 'another' }] }, b: { failed: ['fast'] } });
    lie.forget(['lost']);
    assert.throws(() => routeById(lie, moved.id), /pool fast of b is not open/);
    const others = fleetOf({ a: { entries: [{ id: volume('b', 'z'), name: 'z' }] }, b: { failed: ['fast'] } });
    assert.throws(() => routeById(others, volume('b', 'z')), /pool fast of b is not open/);
    const away = fleetOf({ a: { entries: [moved] }, b: { state: 'away' } });
    away.forget(['lost']);
    assert.throws(() => routeById(away, moved.id), /b is away/);
  });

  test('for a node that is away it is UNAVAILABLE, with its name and since when', () => {
    const fleet = fleetOf({ a: {}, b: { volumes: ['y'], state: 'away' } });
    assert.throws(() => routeById(fleet, volume('b', 'y')), {
      name: 'Unavailable',
      message: `${volume('b', 'y')} is on a node that does not answer: b is away since 2026-11-22T10:00:00Z.`,
    });
  });

  test('DV08: what nobody has is asked of all, when all have told; otherwise it is UNAVAILABLE with who is missing', () => {
    const id = volume('a', 'gone');
    assert.deepEqual(routeById(fleetOf({ a: {}, b: {} }), id), { to: 'all', nodes: ['a', 'b'] });
    assert.throws(
      () => routeById(fleetOf({ a: {}, b: { state: 'away' } }), id),
      /no node that is there has it, and b is/,
    );
    assert.throws(
      () => routeById(fleetOf({ a: {}, b: { state: 'telling' } }), id),
      /b has not reported all its volumes yet/,
    );
    const many = Object.fromEntries([...'abcdef'].map((name) => [name, { state: 'away' as const }]));
    assert.throws(() => routeById(fleetOf(many), id), /a is away.*, b is away.*, c is away.*, so are 3 more\.$/);
    assert.throws(() => routeById(new FleetState(), id), /Kubernetes has not said yet/);
  });

  test('an id that can be nobody’s needs nobody in particular', () => {
    const fleet = fleetOf({ a: {}, b: { state: 'away' } });
    assert.deepEqual(routeById(fleet, '../etc'), { to: 'any', nodes: ['a'] });
  });

  test('hostile: a node that says it has the id of another draws no call away', () => {
    const id = volume('a', 'x');
    // Kubernetes is asked: `routeRecorded`.
    const both = fleetOf({ a: { volumes: ['x'] }, liar: { foreign: [id] } });
    assert.throws(() => routeById(both, id), { name: 'SeveralOwners' });
    const away = fleetOf({ a: { state: 'away' }, liar: { foreign: [id] } });
    assert.throws(() => routeById(away, id), Unavailable);
  });

  test('hostile: nor with a group or a pool that it made up', () => {
    const id = snapshotIdFor('a', 's');
    const lie = {
      kind: 'SNAPSHOT' as const,
      id,
      name: 's',
      group_id: groupIdFor('liar', 's'),
      source_id: volume('a', 'x'),
    };
    assert.throws(() => routeById(fleetOf({ a: { state: 'away' }, liar: { entries: [lie] } }), id), Unavailable);
    const own = { ...lie, group_id: '' };
    assert.deepEqual(routeById(fleetOf({ a: { entries: [own] }, liar: { entries: [lie] } }), id), {
      to: 'node',
      node: 'a',
    });
  });

  test('a disk that was moved is believed, once all have told', () => {
    const id = volume('old', 'x');
    assert.deepEqual(routeById(fleetOf({ a: {}, b: { foreign: [id] } }), id), { to: 'node', node: 'b' });
    assert.throws(() => routeById(fleetOf({ a: { foreign: [id] }, b: { foreign: [id] } }), id), FailedPrecondition);
  });

  test('a node that has gone from Kubernetes is not waited for', () => {
    const fleet = fleetOf({ a: {}, b: { state: 'away' } });
    fleet.expect(['a']);
    assert.deepEqual(routeById(fleet, volume('b', 'x')), { to: 'all', nodes: ['a'] });
  });

  test('what a node said before counts while it tells all anew', () => {
    const fleet = fleetOf({ a: { volumes: ['x'] } });
    fleet.linked('a');
    assert.deepEqual(routeById(fleet, volume('a', 'x')), { to: 'node', node: 'a' });
    assert.throws(() => routeById(fleet, volume('a', 'y')), /a has not reported all its volumes yet/);
  });
});

describe('CreateVolume', () => {
  const fleet = fleetOf({ a: { volumes: ['x'] }, b: {}, c: { state: 'away' } });
  const create = (preferred: string[], requisite: string[], more: { name?: string; sourceId?: string } = {}) =>
    routeCreation(fleet, {
      name: more.name ?? 'new',
      sourceId: more.sourceId,
      topology: { preferred: place(...preferred), requisite: place(...requisite) },
    });

  const rows: readonly [string, string[], string[], string[]][] = [
    ['preferred places go before requisite ones', ['b'], ['a', 'b'], ['b', 'a']],
    ['requisite places count in their order', [], ['b', 'a'], ['b', 'a']],
    ['a node that is away is passed over', ['c', 'a'], ['a', 'c'], ['a']],
    ['preferred places alone forbid nothing', ['b'], [], ['b', 'a']],
  ];
  for (const [title, preferred, requisite, nodes] of rows) {
    test(title, () => assert.deepEqual(create(preferred, requisite), { nodes, strays: [] }));
  }

  test('without a topology every node that is there will do', () => {
    const { nodes } = routeCreation(fleet, { name: 'new', sourceId: undefined, topology: undefined });
    assert.deepEqual(nodes, ['a', 'b']);
  });

  test('T03: a try again goes where the first one made it, if it may be there', () => {
    assert.deepEqual(create(['b'], ['a', 'b'], { name: 'x' }).nodes, ['a']);
  });

  test('a claim that moved is made where it is now, and what the first try made is told', () => {
    const stray = { node: 'a', id: volume('a', 'x') };
    assert.deepEqual(create(['b'], ['b'], { name: 'x' }), { nodes: ['b'], strays: [stray] });
  });

  test('CV29: a copy lies beside its source, and elsewhere it is RESOURCE_EXHAUSTED', () => {
    const sourceId = volume('a', 'x');
    assert.deepEqual(create(['b', 'a'], ['a', 'b'], { sourceId }).nodes, ['a']);
    assert.throws(() => create(['b'], ['b'], { sourceId }), ResourceExhausted);
  });

  test('CV22: a source that nobody has is NOT_FOUND only when all have told', () => {
    const sourceId = volume('a', 'never');
    assert.throws(() => create(['a'], ['a'], { sourceId }), Unavailable);
    const topology = { preferred: [], requisite: place('a') };
    assert.throws(() => routeCreation(fleetOf({ a: {} }), { name: 'new', sourceId, topology }), NotFound);
  });

  test('where nobody is there it is UNAVAILABLE, where nobody has the driver RESOURCE_EXHAUSTED', () => {
    assert.throws(() => create(['c'], ['c']), /c is away since/);
    assert.throws(() => create(['d'], ['d']), ResourceExhausted);
    assert.throws(() => routeCreation(new FleetState(), { name: 'new', sourceId: undefined, topology: undefined }), {
      name: 'Unavailable',
    });
  });

  test('a place with another key is nowhere', () => {
    const topology = { preferred: [], requisite: [{ zone: 'z', [topologyKey]: 'a' }] };
    assert.throws(() => routeCreation(fleet, { name: 'new', sourceId: undefined, topology }), ResourceExhausted);
  });
});

describe('snapshots and groups', () => {
  const groupId = groupIdFor('a', 'g');
  const member = memberIdFor(groupId, volume('a', 'x'));
  const fleet = fleetOf({
    a: {
      volumes: ['x', 'z'],
      entries: [
        { kind: 'SNAPSHOT', id: snapshotIdFor('a', 's'), name: 's', source_id: volume('a', 'x') },
        { kind: 'GROUP', id: groupId, name: 'g' },
        { kind: 'SNAPSHOT', id: member, name: 'g', source_id: volume('a', 'x'), group_id: groupId },
      ],
    },
    b: { volumes: ['y'] },
  });

  test('a snapshot is cut where its source is', () => {
    assert.deepEqual(routeSnapshot(fleet, 'new', volume('b', 'y')), { to: 'node', node: 'b' });
  });

  test('CS05: one whose name is taken is answered by who has it', () => {
    assert.deepEqual(routeSnapshot(fleet, 's', volume('b', 'y')), { to: 'node', node: 'a' });
  });

  test('GR08: volumes of several nodes are refused with the nodes’ names', () => {
    const [x, y] = [volume('a', 'x'), volume('b', 'y')];
    assert.deepEqual(routeGroup(fleet, 'new', [x, volume('a', 'z')]), { to: 'node', node: 'a' });
    assert.throws(() => routeGroup(fleet, 'new', [x, y]), {
      name: 'FailedPrecondition',
      message: `Volumes of several nodes cannot be snapshotted at one instant (${x} is on a, ${y} is on b): group volumes of one node.`,
    });
  });

  test('one that nobody has goes before', () => {
    assert.deepEqual(routeGroup(fleet, 'new', [volume('a', 'x'), volume('a', 'never')]).to, 'all');
  });

  test('GR17: a group that is half gone is found by its members', () => {
    assert.deepEqual(routeGroupById(fleet, groupId, [member]), { to: 'node', node: 'a' });
    assert.deepEqual(routeGroupById(fleet, groupIdFor('a', 'never'), [member]), { to: 'node', node: 'a' });
  });
});

test('capacities add up, but a volume lies on one node', () => {
  const told = (available: bigint, smallest = 1n) => ({
    available_capacity: available,
    maximum_volume_size: { value: available },
    minimum_volume_size: { value: smallest },
  });
  assert.deepEqual(sumCapacity([]), { available_capacity: 0n });
  assert.deepEqual(sumCapacity([told(0n), told(5n)]), told(5n));
  assert.deepEqual(sumCapacity([told(7n, 2n), told(5n, 3n)]), {
    available_capacity: 12n,
    maximum_volume_size: { value: 7n },
    minimum_volume_size: { value: 2n },
  });
});

test('whatever is there and away: a known volume is never "not found", and an unknown one only if all are there', () => {
  const names = ['a', 'b', 'c', 'd'];
  const state = fc.constantFrom('told' as const, 'telling' as const, 'away' as const);
  const told = fc.record({ state, volumes: fc.uniqueArray(fc.constantFrom('u', 'v', 'w')) });
  const nodes = fc.record({ a: told, b: told, c: told, d: told });
  fc.assert(
    fc.property(nodes, fc.constantFrom(...names), fc.constantFrom('u', 'v', 'w', 'x'), (parts, node, name) => {
      const fleet = fleetOf(parts);
      const id = volume(node, name);
      const has = Object.entries(parts).some(([own, { state, volumes }]) => {
        return own === node && volumes.some((volumeName) => volumeName === name) && state !== 'telling';
      });
      const allThere = Object.values(parts).every(({ state }) => state === 'told');
      const isThere = Object.entries(parts).some(([own, { state }]) => own === node && state !== 'away');
      const route = attempt(() => routeById(fleet, id));
      if (has) assert.deepEqual(route, isThere ? { to: 'node', node } : 'Unavailable');
      else assert.deepEqual(route, allThere ? { to: 'all', nodes: names } : 'Unavailable');
    }),
  );
});

function attempt<T>(work: () => T): T | string {
  try {
    return work();
  } catch (error) {
    return error instanceof Error ? error.name : 'thrown';
  }
}
