import type { Mutant } from '../mutant.ts';

const notes = { file: 'src/fleet/kubernetes/taken-back.ts', killer: 'test/fleet/taken-back.test.ts' } as const;

const others = {
  file: 'src/fleet/controller/lost-node.ts',
  killer: 'src/fleet/controller/lost-node.test.ts',
} as const;

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
    text: '> maxReplaced',
    replacement: '> maxNotes',
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
];
