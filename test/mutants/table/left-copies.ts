import type { Mutant } from '../mutant.ts';

const trashed = { killer: 'test/move/trashed-earlier.test.ts' } as const;

const others = {
  file: 'src/fleet/controller/other-copies.ts',
  killer: 'src/fleet/controller/other-copies.test.ts',
} as const;

const plugin = {
  file: 'deploy/kubectl/kubectl-holdfast',
  killer: 'test/deploy/kubectl-move.test.ts',
  only: 'whose claim another terminal has begun to move on',
} as const;

const target = { killer: 'test/move/earlier-in-target.test.ts' } as const;

const ended = { killer: 'test/move/ended-source.test.ts' } as const;

/** A copy that its volume has left becomes the volume by a word only, wherever it lies, and goes not before its time. */
export const leftCopyMutants: readonly Mutant[] = [
  {
    name: 'a copy in the trash without a fence is an earlier one, too, by the note of its node',
    ...trashed,
    file: 'src/pool/catalog/left-in-trash.ts',
    text: 'return whyUnusable(mark, await generations.read(record.id)) !== undefined;',
    replacement: 'return mark.fence?.isGiven === true;',
    only: 'becomes the volume by the word alone',
  },
  {
    name: 'a copy that its volume has left does not go for its space',
    ...trashed,
    file: 'src/pool/catalog/left-in-trash.ts',
    text: 'return entries.filter((_entry, at) => left[at] !== true);',
    replacement: 'return entries.filter((_entry, at) => left[at] !== null);',
    only: 'keeps its space for its week',
  },
  {
    name: 'a volume that is released leaves no copy that is the volume then',
    file: 'src/admin/adoption.ts',
    text: 'await removeMoved(mover, id, () => pool.release(id, to));',
    replacement: 'await removeMoved(undefined, id, () => pool.release(id, to));',
    killer: 'test/move/released.test.ts',
    only: 'leaves no copy that is the volume then',
  },
  {
    name: 'no earlier copy becomes the volume, by any word, while a third node has a later one in its trash',
    file: 'src/cli/fleet/taking-back.ts',
    text: '  await requireNoLaterTrashed(fleet, copy);\n',
    replacement: '',
    killer: 'test/fleet/later-copies.test.ts',
    only: 'a later one in its trash: the pool is lost',
  },
  {
    name: 'a copy that waits as a whole on a third node may be a later one',
    ...others,
    text: '  if (whole !== undefined) throw waitsWhole(volumeId, whole);\n',
    replacement: '',
    only: 'waits as a whole on a third node',
  },
  {
    name: 'a node with a note of the volume is not without it, whatever the operator says',
    file: 'src/cli/fleet/taking-back.ts',
    text: ' && (await moves.noteAt(name, volumeId)).generation === 0;',
    replacement: ';',
    killer: 'test/fleet/later-copies.test.ts',
    only: 'becomes it, by a second word',
  },
  {
    name: 'no copy is restored while all of a later one waits on its node',
    ...trashed,
    file: 'src/admin/service.ts',
    text: '      await refuseWaiting(mover, id);\n',
    replacement: '',
    only: 'while all of a later one waits',
  },
  {
    name: 'a whole copy that was on a disk which is an empty one by now does not wait any more',
    ...trashed,
    file: 'src/move/mover.ts',
    text: 'return isGone ? undefined : job;',
    replacement: 'return job;',
    only: 'which has an empty disk by now',
  },
  {
    name: 'a PersistentVolume whose claim another terminal moves on stays with the policy Retain',
    ...plugin,
    text: "      *' yes '*) return 0 ;;\n",
    replacement: '',
  },
  {
    name: 'a PersistentVolume gets its policy back only as it was seen',
    ...plugin,
    text: '{\\"resourceVersion\\":',
    replacement: '{\\"ignored\\":',
  },
  {
    name: 'a copy that was taken back elsewhere goes only once that is noted durably, also by the second try',
    file: 'src/pool/catalog/moves.ts',
    text: 'if (!(await generations.isNoted(id, generation))) {',
    replacement: 'if ((await generations.read(id)) < generation) {',
    killer: 'test/move/pool.test.ts',
    only: 'does not go to the trash before it is noted durably',
  },
  {
    name: 'a copy is restored only once its generation is noted durably, also by the second try',
    file: 'src/pool/catalog/deletion.ts',
    text: 'generation > 0 && !(await generations.isNoted(record.id, generation))',
    replacement: 'generation > (await generations.read(record.id))',
    killer: 'test/move/pool.test.ts',
    only: 'is not restored from the trash before its generation',
  },
  {
    name: 'a volume that is deleted is gone before its note',
    file: 'src/pool/catalog/deletion.ts',
    text: '    await refuseInUse(this.#parts, record);\n',
    replacement: '    await refuseInUse(this.#parts, record);\n    await generations.forget(id);\n',
    killer: 'test/move/pool.test.ts',
    only: 'keeps its note until it is gone',
  },
  {
    name: 'a look without the driver counts the space of a copy that was left as taken',
    file: 'src/pool/catalog/look.ts',
    text: 'hasLeftBy(trash.kept.length === 0 ? undefined : marks)',
    replacement: 'hasLeftBy(undefined)',
    ...trashed,
    only: 'a look at a pool without its driver',
  },
  {
    name: 'the end of a move at its source does not say that the volume is there',
    ...ended,
    file: 'src/move/rests.ts',
    text: 'if (seen instanceof MoveEnded) return seen.left?.state;',
    replacement: 'if (seen instanceof MoveEnded) return { mark: { generation: 0 }, why: undefined };',
    only: 'it does not cancel the move, and node b keeps the copy',
  },
  {
    name: 'a source whose copy is lost, or an earlier one, does not end a move alone',
    ...ended,
    file: 'src/move/nodes/leavings.ts',
    text: "if (state === undefined || state.why === 'old') throw notHere(job);",
    replacement: "if (state?.why === 'given') throw notHere(job);",
    only: 'it does not cancel the move, and node b keeps the copy',
  },
  {
    name: 'a source that has the volume says so as its move has ended',
    ...ended,
    file: 'src/move/nodes/wire.ts',
    text: 'return { isDeleted, state: copy && { mark: parseMark(copy.mark, where), why: copy.why } };',
    replacement: 'return { isDeleted, state: undefined };',
    only: 'node a has taken the volume back',
  },
  {
    name: 'an earlier copy in the pool that a volume goes to is not the volume',
    ...target,
    file: 'src/move/copies.ts',
    text: 'return (await pool.find(id)) !== undefined && isVolume(await movesOf(pool).stateOf(id));',
    replacement: 'return (await pool.find(id)) !== undefined;',
    only: 'nothing is finished',
  },
  {
    name: 'an earlier copy does not keep the volume out of its pool',
    ...target,
    file: 'src/move/moving.ts',
    text: 'await this.#leaveEarlier(mark);',
    replacement: '',
    only: 'it goes to the trash, and the volume arrives',
  },
  {
    name: 'an earlier copy does not keep a node from giving the latest one up',
    ...target,
    file: 'src/pool/catalog/moves.ts',
    text: 'return isVolume(await this.stateOf(id));',
    replacement: 'return true;',
    only: 'between nodes, after the hand-over',
  },
  {
    name: 'the note of a whole copy stays while another disk is in the place of its own',
    file: 'src/move/rests.ts',
    text: 'return whole === undefined ? false : undefined;',
    replacement: 'return false;',
    killer: 'test/move/pool-away.test.ts',
    only: 'loses no note of all that had come',
  },
  {
    name: 'a part of a move that its node knows nothing of goes by a second word only',
    file: 'src/move/undo.ts',
    text: 'if (!isEvenSo) throw unknownPart(id, name);',
    replacement: '',
    killer: 'test/move/own-disk-lost.test.ts',
  },
  {
    name: 'an earlier copy becomes the volume by a second word only, also if the other node is lost',
    ...ended,
    file: 'src/move/undo.ts',
    text: 'if (isEarlier(state) && !isEvenSo) throw',
    replacement: 'if (isEarlier(state) && lost === undefined && !isEvenSo) throw',
    only: 'node a has the earlier copy as the volume',
  },
  {
    name: 'a volume that comes out of the trash is not deleted any more for the copy on another node',
    ...ended,
    file: 'src/admin/service.ts',
    text: 'await mover?.wanted(id);',
    replacement: '',
    only: 'stays if the volume came out of the trash',
  },
];
