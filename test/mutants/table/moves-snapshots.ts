import type { Mutant } from '../mutant.ts';

const nodes = { killer: 'test/move/snapshots-nodes.test.ts' } as const;
const mover = { ...nodes, file: 'src/move/snapshots/snapshot-mover.ts' } as const;
const answers = { ...nodes, file: 'src/move/nodes/snapshot-answers.ts', only: 'gets no copy removed' } as const;
const calls = { file: 'src/fleet/controller/calls.ts', killer: 'test/fleet/gone-snapshot.test.ts' } as const;
const stillThere = { ...calls, only: 'still seems to have' } as const;
const twice = { ...calls, only: 'is asked for twice' } as const;

/** Snapshots follow their volume to another node: none is lost, and none that was deleted comes back. */
export const moveSnapshotMutants: readonly Mutant[] = [
  {
    name: 'a snapshot that has followed its volume is the one of its name',
    ...nodes,
    file: 'src/controller/snapshots/snapshots.ts',
    text: '(await pools.findMadeSnapshot(id)) ?? takenElsewhere(pools, request);',
    replacement: 'await pools.findMadeSnapshot(id);',
    only: 'have the same bytes',
  },
  {
    name: 'a snapshot that comes from another node is not called missing before it is there',
    ...nodes,
    file: 'src/pool/pools.ts',
    text: 'const node = await this.comingFrom(id);',
    replacement: 'const node = undefined;',
    only: 'cannot arrive',
  },
  {
    name: 'a snapshot that has come from another node is deleted once that has heard of it',
    ...mover,
    text: 'const node = await this.#comingFrom(id);',
    replacement: 'const node = undefined;',
    only: 'is not deleted before',
  },
  {
    name: 'the snapshot that comes from another node is known after a restart',
    ...mover,
    text: '    if (held.node !== undefined) await this.#noteComing(run, { id: record.id, createdAt: record.createdAt });\n',
    replacement: '',
    only: 'is not deleted before',
  },
  {
    name: 'a node gives up the snapshot that it could commit before the other one has it again',
    ...mover,
    text: 'await held.takeBack(await movesOf(to).snapshots.disclaim(id, state.mark, held.node));',
    replacement: 'await held.takeBack(2);',
    only: 'cannot arrive',
  },
  {
    name: 'a part of a snapshot from another node is no rest as long as that may come',
    file: 'src/move/snapshots/left-copies.ts',
    killer: 'test/move/snapshots-doubt.test.ts',
    text: 'pools.firstClosed() !== undefined || isComing()',
    replacement: 'pools.firstClosed() !== undefined',
    only: 'of which no copy is fenced',
  },
  {
    name: 'a snapshot is not handed over to a node that would not commit it',
    ...nodes,
    file: 'src/move/snapshots/snapshot-move.ts',
    text: 'held.node === undefined ? undefined : await requireNotPast(held, target);',
    replacement: '(await held.look())?.mark;',
    only: 'whose earlier snapshot was given up',
  },
  {
    name: 'a copy of a snapshot goes only if it was handed over to the node that says that it has it',
    ...answers,
    text: 'return { isSettled: isGiven && (await held.settle(generation)) };',
    replacement: 'return { isSettled: await held.settle(generation) };',
  },
  {
    name: 'a snapshot is handed over only to the node that it is fenced for',
    ...answers,
    text: 'if (!(await this.#isForMove(held))) throw notFor(named.snapshot, move.node);',
    replacement: '',
  },
  {
    name: 'snapshots follow to another node only where that was turned on at both',
    ...nodes,
    file: 'src/move/nodes/snapshot-leavings.ts',
    text: 'if (movesSnapshots !== true) {',
    replacement: 'if (movesSnapshots === null) {',
    only: 'are refused before anything',
  },
  {
    name: 'a snapshot that was handed over is not taken back where its other node may have it',
    ...mover,
    text: 'if (node === undefined || node === lost?.lostNode) return;',
    replacement: 'return;',
    only: 'cannot arrive',
  },
  {
    name: 'an order that an older driver would carry out without the snapshots changes nothing',
    file: 'src/fleet/controller/fleet-moves.ts',
    killer: 'src/fleet/controller/fleet-moves.test.ts',
    text: 'if (order.withSnapshots) await this.plan(order);',
    replacement: '',
    only: 'if the driver of b is older',
  },
  {
    name: 'a snapshot that has just moved is not called missing by the node that it has left',
    ...stillThere,
    text: '        await refuseGone(parts, snapshotId, route.node);\n',
    replacement: '',
  },
  {
    name: 'a snapshot that has just moved is not left out of a list by the node that it has left',
    ...stillThere,
    file: 'src/fleet/controller/listing.ts',
    text: "if (route.to === 'node' && entriesIn(method, answer) === 0) await refuseGone(route.node);",
    replacement: '',
  },
  {
    name: 'a snapshot that has just moved is deleted where it is',
    ...stillThere,
    text: "const canMove = method.name === 'DeleteVolume' || method.name === 'DeleteSnapshot';",
    replacement: "const canMove = method.name === 'DeleteVolume';",
  },
  {
    name: 'a snapshot that no node lists is asked for twice',
    ...twice,
    text: "route.to === 'all' && snapshotId !== undefined ? forwardTwice : forward",
    replacement: 'forward',
  },
  {
    name: 'a list of one snapshot that no node lists asks twice',
    ...twice,
    file: 'src/fleet/controller/listing.ts',
    text: 'found(await ask()) ?? found(await ask())',
    replacement: 'found(await ask())',
  },
  {
    name: 'a snapshot that was taken back from a lost node is deleted there, too',
    ...calls,
    text: 'if (snapshotId !== undefined) await alsoWhereListed(parts, route.node, snapshotId, call);',
    replacement: '',
    only: 'is deleted on both',
  },
  {
    name: 'a node that was lost removes its copy of a snapshot that was taken back from it',
    file: 'src/move/snapshots/snapshot-mover.ts',
    text: '(error instanceof MoveForgotten || (await this.#settleTakenBack(run)))',
    replacement: 'true',
    killer: 'test/fleet/moves-snapshots.test.ts',
    only: 'which has not said so',
  },
  {
    name: 'a copy of a snapshot goes only before a later one',
    file: 'src/pool/catalog/snapshot-moves.ts',
    text: 'if ((await this.stateOf(id)).mark.generation >= generation) return;',
    replacement: '',
    killer: 'test/move/snapshot-pool.test.ts',
    only: 'that another node has taken back',
  },
  {
    name: 'a snapshot becomes one without its source only once that is known to be lost',
    file: 'src/cli/fleet/change.ts',
    text: 'requireLost(fleet.state, lostNode);\n    return order({ lostNode });',
    replacement: 'return order({ lostNode });',
    killer: 'test/fleet/moves-snapshots.test.ts',
    only: 'whose copy goes once that is back',
  },
  {
    name: 'a copy of a snapshot that may be the last one can become the snapshot after a cancel, too',
    file: 'src/move/snapshots/snapshot-mover.ts',
    text: "state !== 'done' && coming?.whole !== undefined ? { coming } : {};",
    replacement: '{};',
    killer: 'test/fleet/moves-snapshots.test.ts',
    only: 'also once the order is cancelled',
  },
  {
    name: 'what has come of a snapshot goes only once the node that had it has taken it back',
    ...mover,
    text: "      if (state.why !== 'given') await held.open();\n      else if",
    replacement:
      "      for (const { moves } of open) await moves?.snapshots.discard(id);\n      if (state.why !== 'given') await held.open();\n      else if",
    only: 'keeps what has come',
  },
];
