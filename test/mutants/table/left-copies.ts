import type { Mutant } from '../mutant.ts';

const trashed = { killer: 'test/move/trashed-earlier.test.ts' } as const;

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
    file: 'src/pool/catalog/trash.ts',
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
];
