import type { Mutant } from '../mutant.ts';

const context = {
  file: 'src/pool/kinds/gluster/context.ts',
  killer: 'src/pool/kinds/gluster/context.test.ts',
} as const;
const ofKind = (file: 'client' | 'kind' | 'notes' | 'side') =>
  ({ file: `src/pool/kinds/gluster/${file}.ts`, killer: 'src/pool/kinds/gluster/gluster.test.ts' }) as const;
const client = (file: 'client' | 'side') =>
  ({ file: `src/pool/kinds/gluster/${file}.ts`, killer: 'test/pool/gluster-client.test.ts' }) as const;
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
    name: 'a client that is about to be started does not take the one before from its mount',
    ...ofKind('notes'),
    text: 'client: isKept ? client : undefined',
    replacement: 'client: undefined',
  },
  {
    name: 'a pod gets no directory of the node after a client has unmounted itself',
    ...client('side'),
    text: 'if (!sameDevice((await statusOf(this.#inside, whole)).device, current)) {',
    replacement: 'if (current === null) {',
  },
  {
    name: 'a client that is slow keeps a mount that is in use',
    ...client('side'),
    text: 'if (!isDead && (await this.#ask(volume, openWithinMs)) === undefined) throw error;',
    replacement: 'if (!isDead && (await this.#ask(volume, askWithinMs)) === undefined) throw error;',
  },
  {
    name: 'a mount of the driver that is in use is not put out of sight while its client answers',
    ...client('side'),
    text: '      if (isAnswering) {\n',
    replacement: '      if (isAnswering === null) {\n',
  },
  {
    name: 'a client is not killed while a process has its files open',
    ...client('client'),
    text: '  if (user !== undefined) {\n',
    replacement: '  if (user === null) {\n',
  },
  {
    name: 'processes that wait for a client that has read their requests come free',
    ...client('side'),
    text: 'if (failure === silent && mount.fsType === fuseType) await abortConnection(this.#host, mount.device);',
    replacement: '',
  },
  {
    name: 'a client whose note is lost is not ended while a pod has its mount',
    ...client('side'),
    text: 'const isUnknown = own !== undefined && !isNoted(note, own) && isUsed(own.device);',
    replacement: 'const isUnknown = false;',
  },
  {
    name: 'a driver that does not see the host takes no client for dead',
    ...client('side'),
    text: 'return (await hostProgram(this.#host, this.#node.clientPaths)) !== undefined;',
    replacement: 'return true;',
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
