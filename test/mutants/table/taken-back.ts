import type { Mutant } from '../mutant.ts';

const notes = { file: 'src/fleet/kubernetes/taken-back.ts', killer: 'test/fleet/taken-back.test.ts' } as const;

const others = {
  file: 'src/fleet/controller/other-copies.ts',
  killer: 'src/fleet/controller/other-copies.test.ts',
} as const;

const cancel = { file: 'src/cli/fleet/change.ts', killer: 'test/fleet/cancel-killed.test.ts' } as const;

/** A copy becomes the volume only if no other one can, and the controller notes that. */
export const takenBackMutants: readonly Mutant[] = [
  {
    name: 'a note that goes lets the one before it stand again',
    ...notes,
    text: 'notes.set(volumeId, { ...last, earlier, ...rest });',
    replacement: 'notes.delete(volumeId);',
    only: 'goes, and the volume is at a node that is away',
  },
  {
    name: 'a note that goes takes the count of those before it with it only if they stand again',
    ...notes,
    text: 'if (last === undefined && words > 0) return false;',
    replacement: '',
    only: 'of an earlier controller',
  },
  {
    name: 'a note that is sure does not go',
    ...notes,
    text: ' || note.generation !== undefined) return false;\n    const { earlier',
    replacement: ') return false;\n    const { earlier',
    only: 'is sure by now',
  },
  {
    name: 'the notes of one volume that were replaced have a limit',
    ...notes,
    text: 'if ((note.replaced?.length ?? 0) > maxReplaced) {',
    replacement: 'if ((note.replaced?.length ?? 0) > maxNotes) {',
    only: 'and no more',
  },
  {
    name: 'a node that has not said whether its copy is an earlier one may have the volume',
    ...others,
    text: '  if (doubted === undefined) return;\n',
    replacement: '  if (doubted !== undefined) return;\n',
    only: 'has not said yet',
  },
  {
    name: 'a claim means no volume of another driver',
    file: 'src/cli/fleet/change.ts',
    text: 'if (parseVolumeId(handle) !== undefined && isMeant(recorded, volume)) found.push(recorded);',
    replacement: 'if (isMeant(recorded, volume)) found.push(recorded);',
    killer: 'test/fleet/named-by-claim.test.ts',
  },
  {
    name: 'a volume that no node knows is known by its PersistentVolume',
    file: 'src/cli/fleet/change.ts',
    text: 'if (known.size === 0) for',
    replacement: 'if (known.size === 1) for',
    killer: 'test/fleet/named-by-claim.test.ts',
  },
  {
    name: 'a node whose Kubernetes has not said which others there are takes nothing back',
    ...others,
    text: 'if (!state.areNodesKnown) {',
    replacement: 'if (state.nodes.length === 0) {',
    only: 'before Kubernetes has said',
  },
  {
    name: 'a copy that was handed over is the volume again only if no third node may have it',
    ...cancel,
    text: '  await requireAlone(fleet, { volumeId: id, node: source, otherNode });\n',
    replacement: '',
    only: 'is refused while any node is away',
  },
  {
    name: 'a cancel before the hand-over waits for no node that is away',
    ...cancel,
    text: 'return !isVolume && createdAt !== undefined;',
    replacement: 'return createdAt !== undefined;',
    only: 'is refused while any node is away',
  },
  {
    name: 'a copy that was handed over to another pool is the volume again only if no other node may have it',
    ...cancel,
    text: 'if (copy !== undefined && !isLeft(copy)) return undefined;',
    replacement: 'if (copy?.elsewhere === undefined) return undefined;',
    only: 'while another node is away once',
  },
  {
    name: 'a node whose volumes move between its pools alone says which copy it has',
    file: 'src/fleet/node/start.ts',
    text: '      ...(mover ? copyCalls(mover, { log }) : []),\n',
    replacement: '',
    killer: 'test/fleet/cancel-killed.test.ts',
    only: 'while another node is away once',
  },
  {
    name: 'a copy that is the volume again after a hand-over is noted, as a disk with a later one may come',
    file: 'src/cli/fleet/change.ts',
    text: 'return takeBack(fleet, copy, async ({ earlier, words }) => {',
    replacement:
      'return ((order: (note: Partial<TakenBack>) => Promise<Moving>) => order({}))(async ({ earlier, words }) => {',
    killer: 'test/fleet/lost-node.test.ts',
    only: 'gives the volume up',
  },
  {
    name: 'a copy is not taken for the latest one while another node may have taken the volume back',
    ...notes,
    text: 'if (generation !== undefined) requireLatest(volumeId, note, generation);',
    replacement: '',
    only: 'that may be an earlier one',
  },
  {
    name: 'a copy that is earlier than one that was taken back does not come out of the trash',
    file: 'src/cli/fleet/change.ts',
    text: 'return note !== undefined && (note.generation === undefined || note.node !== node);',
    replacement: 'return note !== undefined && note.generation === undefined;',
    killer: 'test/fleet/taken-back.test.ts',
    only: 'in the trash of another node',
  },
  {
    name: 'a pool that has a volume no more which has moved there may have had another disk',
    file: 'src/admin/service.ts',
    text: '  if (lostPool !== undefined && (to',
    replacement: '  if (to !== undefined && pools.names().includes(to)) return;\n  if (lostPool !== undefined && (to',
    killer: 'test/move/other-node.test.ts',
    only: 'although another disk is in its pool',
  },
  {
    name: 'a node hears of a later copy as soon as that is sure',
    file: 'src/fleet/controller/keepers/taken-back-keeper.ts',
    text: 'const counted = standing && sureNote(standing);',
    replacement: 'const counted = sure.get(volumeId);',
    killer: 'test/fleet/taken-back.test.ts',
    only: 'counts once the copy',
  },
  {
    name: 'a refused order leaves the note of one before it that may be carried out yet',
    file: 'src/cli/fleet/taking-back.ts',
    text: ' && note.isRenewed !== true)',
    replacement: ')',
    killer: 'test/fleet/taken-back.test.ts',
    only: 'that is given again and again',
  },
  {
    name: 'an order that is given again and again leaves one note',
    ...notes,
    text: '(generation !== undefined || isFull);',
    replacement: 'isFull;',
    only: 'that is given again and again',
  },
];
