import type { Mutant } from '../mutant.ts';

const killer = 'test/contract/directory.test.ts';
const adoption = { file: 'src/pool/kinds/directory/adoption.ts', killer } as const;
const adoptable = { file: 'src/pool/kinds/directory/adoptable.ts', killer } as const;
const tree = { file: 'src/pool/kinds/directory/adoptable-tree.ts', killer } as const;
const attacher = { file: 'src/pool/kinds/directory/attacher.ts', killer } as const;

/** Directories that become volumes: nobody else's, and only when nobody uses them. */
export const adoptionMutants: readonly Mutant[] = [
  {
    name: 'a directory that somebody uses is not adopted',
    ...adoptable,
    text: '  if (holders.length > 0) {\n',
    replacement: '  if (holders.length > 1000) {\n',
    only: 'what is in use is not adopted',
  },
  {
    name: 'only the directory that was looked at is adopted',
    ...adoption,
    text: ' || status.inode.toString() !== identity) {\n',
    replacement: ') {\n',
    only: 'another directory, put in its place',
  },
  {
    name: 'the directory of a pool is not adopted',
    ...adoptable,
    text: '    await refuseInPool(queue, path);\n',
    replacement: '',
    only: "a pool's own directories",
  },
  {
    name: 'what a pool lies in is not adopted',
    ...adoptable,
    text: 'if (isAtOrBelow(place.root, root))',
    replacement: 'if (place.root === root)',
    only: "a pool's own directories",
  },
  {
    name: 'a file with a name elsewhere is not adopted',
    ...tree,
    text: '  names.refuseOutside();\n',
    replacement: '',
    only: 'a file with a name elsewhere',
  },
  {
    name: 'an adopted directory in use by another mount namespace is not released',
    ...attacher,
    text: '    return isMounted ? ',
    replacement: '    return isMounted && false ? ',
    only: 'only another mount namespace has mounted',
  },
];
