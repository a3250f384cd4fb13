import type { Mutant } from '../mutant.ts';

const context = {
  file: 'src/pool/kinds/gluster/context.ts',
  killer: 'src/pool/kinds/gluster/context.test.ts',
} as const;
const ofKind = (file: 'client' | 'kind' | 'notes' | 'side') =>
  ({ file: `src/pool/kinds/gluster/${file}.ts`, killer: 'src/pool/kinds/gluster/gluster.test.ts' }) as const;
const lost = (file: string) => ({ file: `src/node/${file}.ts`, killer: 'test/grpc/lost-mounts.test.ts' }) as const;

/** Volumes on GlusterFS, and mounts whose process has ended, as far as no server is needed. */
export const glusterMutants: readonly Mutant[] = [
  {
    name: 'the name of a GlusterFS volume is no other argument and no other file',
    ...context,
    text: '/^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/.test(text)',
    replacement: "text !== ''",
  },
  {
    name: 'a client of GlusterFS gets no option but the known ones',
    ...context,
    text: '    const known = Object.hasOwn(optionValues, name);\n',
    replacement: '    const known = true;\n',
  },
  {
    name: 'Endpoints that nothing reads are not ignored',
    ...context,
    text: 'if (endpoints !== undefined) {',
    replacement: 'if (endpoints === null) {',
  },
  {
    name: 'a client of GlusterFS outlives the container of the driver, where systemd runs',
    ...ofKind('client'),
    text: "[host.cgroups.systemdRun, '--scope', '--quiet', ",
    replacement: "['nice', '--scope', '--quiet', ",
  },
  {
    name: 'a file on GlusterFS that was closed is on the bricks',
    ...ofKind('client'),
    text: "    '--xlator-option=*-write-behind.flush-behind=off',\n",
    replacement: '',
  },
  {
    name: 'a number that the kernel gave to another mount is no more that of an earlier volume',
    ...ofKind('notes'),
    text: 'if (note.handle !== handle && mounts.length < note.mounts.length) await',
    replacement: 'if (note.handle === handle && mounts.length < note.mounts.length) await',
  },
  {
    name: 'mounts of a client that has ended are still those of its volume',
    ...ofKind('notes'),
    text: 'mounts: [device, ...earlier]',
    replacement: 'mounts: [device]',
  },
  {
    name: 'a process of before a reboot is no client of GlusterFS',
    ...ofKind('notes'),
    text: 'return note === undefined || note.boot === this.boot ? note : { ...note, client: undefined, mounts: [] };',
    replacement: 'return note;',
  },
  {
    name: 'a mount of another filesystem is no volume on GlusterFS',
    ...ofKind('side'),
    text: 'return fsType === fuseType && note',
    replacement: 'return note',
  },
  {
    name: 'the mount that the driver keeps for itself is no use of a volume',
    ...ofKind('kind'),
    text: 'isOwnMount: (target) => node !== undefined && isAtOrBelow(target, node.mountsDirectory)',
    replacement: 'isOwnMount: () => false',
  },
  {
    name: 'a stage replaces a mount whose process has ended',
    ...lost('stage/stage'),
    text: "const isGone = plan === 'nothing' && (await isLost(observed));",
    replacement: 'const isGone = false;',
  },
  {
    name: 'a pod gets no mount whose process has ended',
    ...lost('publish/publish'),
    text: '  if (access.isLost !== undefined) {\n',
    replacement: '  if (access.isLost === null) {\n',
  },
  {
    name: 'a lost mount is not staged again for another use than that of its stage',
    ...lost('publish/publish'),
    text: "const isStagedLost = noted !== 'different' && (await isLost(staged));",
    replacement: 'const isStagedLost = await isLost(staged);',
  },
  {
    name: 'a lost mount is staged again also by the driver after the one that has unmounted it',
    ...lost('publish/publish'),
    text: "const isUndone = staged.occupant.kind === 'directory' && noted === 'same';",
    replacement: 'const isUndone = false;',
  },
  {
    name: 'a mount whose process has ended is reported',
    ...lost('path/condition'),
    text: '  if (await isLost({ mounted })) return abnormal(lostMessage);\n',
    replacement: '',
  },
];
