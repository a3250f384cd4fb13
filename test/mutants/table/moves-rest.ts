import type { Mutant } from '../mutant.ts';

const fleet = { file: 'src/fleet/controller/fleet-moves.ts', killer: 'test/fleet/moves.test.ts' } as const;

const late = { killer: 'test/move/nodes-late.test.ts', only: 'after that has gone on' } as const;

/** A move ends, or goes on, and leaves nothing, whatever happens beside it. */
export const moveRestMutants: readonly Mutant[] = [
  {
    name: 'the key of the tickets of moves stays when there are new certificates',
    file: 'src/fleet/tls/material.ts',
    text: "'move.key': isKey ? moveKey : ",
    replacement: "'move.key': ",
    killer: 'src/fleet/tls/material.test.ts',
  },
  {
    name: 'a ticket of an earlier controller counts after the upgrade',
    ...fleet,
    text: 'return [key, earlierKey].some(',
    replacement: 'return [key].some(',
    killer: 'src/fleet/controller/fleet-moves.test.ts',
  },
  {
    name: 'new certificates leave the tickets of moves as they are',
    ...fleet,
    text: "const { 'move.key': key } = this.#options.material() ?? {};\n    if (key === undefined) throw",
    replacement: "const { 'ca.key': key } = this.#options.material() ?? {};\n    if (key === undefined) throw",
    only: 'goes on after new keys',
  },
  {
    name: 'a move whose ticket counts no more can be cancelled',
    ...fleet,
    text: '    const { move_id: moveId, source_node: source } = coming.told;\n',
    replacement:
      '    const { move_id: moveId, source_node: source } = coming.told;\n    if (!this.#isBrokered(node, coming.told)) return;\n',
    only: 'whose ticket no key knows',
  },
  {
    name: 'a first node hears that the volume has gone on from the second one',
    file: 'src/move/moving.ts',
    text: "if (why === 'given' && (await this.#hasGoneOn(mark))) return;",
    replacement: '',
    ...late,
  },
  {
    name: 'a copy that waits for its hand-over has not gone on',
    file: 'src/move/moving.ts',
    text: 'if (isWholeBy(await this.#to.comingNote(id))) return false;',
    replacement: '',
    ...late,
    only: 'waits for its hand-over',
  },
  {
    name: 'a volume moves to no node that has had a later copy with its id',
    file: 'src/move/mover.ts',
    text: 'await movesOf(pool).requireNotPast(id, plan.state.mark);',
    replacement: '',
    ...late,
    only: 'deleted one',
  },
  {
    name: 'a first node hears that the volume has gone on when the move is cancelled',
    file: 'src/move/mover.ts',
    text: ' || error instanceof VolumeWentOn',
    replacement: '',
    ...late,
  },
  {
    name: 'the fence of a move ends a minute after its pool is open, not after the start of the driver',
    file: 'src/move/nodes/leavings.ts',
    text: 'if (!isOpen) this.#heardMs.set(job.id, performance.now());',
    replacement: '',
    killer: 'test/move/nodes-starting.test.ts',
    only: 'no sooner than a minute',
  },
  {
    name: 'a move has not ended while the pool that it leaves keeps its copy',
    file: 'src/move/source.ts',
    text: 'if (await this.#moves.settle(id, arrived)) return;',
    replacement: 'await this.#moves.settle(id, arrived);\n    if (pool.name !== undefined) return;',
    killer: 'test/move/nodes-late.test.ts',
    only: 'keeps its copy goes on',
  },
  {
    name: 'a copy on an old disk, which knows no fence, goes when its move ends',
    file: 'src/volume/move/rule.ts',
    text: 'fence === undefined ? generation < validGeneration : fence.moveId === arrived.moveId',
    replacement: 'fence?.moveId === arrived.moveId',
    killer: 'test/move/nodes-late.test.ts',
    only: 'on an old disk',
  },
  {
    name: 'a move is not cancelled while a third node has the volume',
    file: 'src/cli/fleet/change.ts',
    text: '        requireOnlyAt(fleet.state, id, fleet.moves.endsOf(id, node));\n',
    replacement: '',
    killer: 'test/fleet/cancel-killed.test.ts',
    only: 'while a third node has the volume',
  },
  {
    name: 'a move that has failed after the hand-over is cancelled where it has failed',
    file: 'src/cli/fleet/change.ts',
    text: ' ?? failed ?? first;',
    replacement: ' ?? first;',
    killer: 'test/fleet/cancel-killed.test.ts',
    only: 'while a third node has the volume',
  },
  {
    name: 'a move that had ended at its source, and is ordered again, is noted there when its target comes',
    file: 'src/move/nodes/leavings.ts',
    text: 'if (isOrder || this.#jobOf(id, moveId) === undefined) await this.begin(move);',
    replacement: 'if (this.#jobOf(id, moveId) === undefined) await this.begin(move);',
    killer: 'test/move/nodes-late.test.ts',
    only: 'has begun there once its target',
  },
  {
    name: 'a volume that has just gone to a node which is away is not taken for deleted',
    file: 'src/fleet/controller/calls.ts',
    text: '    requireLinked(sight, id);\n    await forward(sessions, {',
    replacement: '    if (!sight.isLinked) return node;\n    await forward(sessions, {',
    killer: 'test/fleet/gone-node.test.ts',
  },
  {
    name: 'a volume that has just gone to another node is deleted there',
    file: 'src/fleet/controller/calls.ts',
    text: "    await forward(sessions, { to: 'node', node: next }, call);\n",
    replacement: '',
    killer: 'test/fleet/gone-node.test.ts',
  },
];
