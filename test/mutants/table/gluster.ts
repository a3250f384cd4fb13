import type { Mutant } from '../mutant.ts';

const context = {
  file: 'src/pool/kinds/gluster/context.ts',
  killer: 'src/pool/kinds/gluster/context.test.ts',
} as const;
const ofKind = (file: 'client' | 'kind' | 'notes') =>
  ({ file: `src/pool/kinds/gluster/${file}.ts`, killer: 'src/pool/kinds/gluster/gluster.test.ts' }) as const;
const client = (file: 'client' | 'ending' | 'side') =>
  ({ file: `src/pool/kinds/gluster/${file}.ts`, killer: 'test/pool/gluster-client.test.ts' }) as const;
const kernel = (file: string) =>
  ({ file: `src/kernel/${file}.ts`, killer: 'test/pool/gluster-client.test.ts' }) as const;
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
    ...ofKind('notes'),
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
    name: 'a note names a client until it has ended',
    ...client('side'),
    text: 'await this.#takeDown(volume, true);\n    await notes.begin(handle, earlier);\n',
    replacement: 'await notes.begin(handle, earlier);\n    await this.#takeDown(volume, true);\n',
  },
  {
    name: 'a start of before a reboot has left no client behind',
    ...ofKind('notes'),
    text: 'return note?.boot === this.boot && note.client === undefined;',
    replacement: 'return note !== undefined && note.client === undefined;',
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
    ...client('ending'),
    text: 'if (failure === undefined) {',
    replacement: 'if (failure === null) {',
  },
  {
    name: 'a client is not killed while a process has opened a file since its mount went',
    ...client('client'),
    text: '    await requireUnused();\n',
    replacement: '',
  },
  {
    name: 'a process that hangs in a volume without a mount of the driver does not keep it for ever',
    ...client('ending'),
    text: 'const failure = await ask(user.link);',
    replacement: "const failure = await ask('/');",
  },
  {
    name: 'a look at one filesystem is no answer of another one',
    ...client('side'),
    text: 'this.#looks.get(path) ?? lookAt(path)',
    replacement: '[...this.#looks.values()][0] ?? lookAt(path)',
  },
  {
    name: 'processes that wait for a client that has read their requests come free',
    ...client('side'),
    text: 'for (const { filesystem, path } of ending.silent) await abortConnection(this.#host, path, filesystem);',
    replacement: '',
  },
  {
    name: 'a connection is not aborted by a number that another filesystem has got',
    ...kernel('mount/fuse'),
    text: 'if (!inside || !sameDevice((await statusOf(queue, inside)).device, device)) return;',
    replacement: '',
  },
  {
    name: 'a process is not killed by a number that another one has got',
    ...kernel('process/kill'),
    text: 'invokeNow(pidfdSendSignalCall, [held, constants.signals.SIGKILL, null, 0]);',
    replacement: "process.kill(pid, 'SIGKILL');",
  },
  {
    name: 'a process of another user is no client',
    ...client('client'),
    text: ' || !(await isOfRoot(queue, pid))',
    replacement: '',
  },
  {
    name: 'a client whose note is lost is not ended while a pod has its mount',
    ...client('ending'),
    text: 'if (mayHavePods && (await areMounted(',
    replacement: 'if (mayHavePods === null && (await areMounted(',
  },
  {
    name: 'a client is not ended for a stage while only another mount namespace has its mount',
    ...client('ending'),
    text: '...(await mountsElsewhere(',
    replacement: '...(await (async (_: string): Promise<readonly Mount[]> => [])(',
  },
  {
    name: 'a client without a note and without a mount of the driver is not ended',
    ...client('ending'),
    text: 'const mayEnd = isKnown || isSameClient(client, note?.client);',
    replacement: 'const mayEnd = isKnown !== null;',
  },
  {
    name: 'a client of a start that was cut short is ended',
    ...client('ending'),
    text: 'const isKnown = isBegun || mounts.some(',
    replacement: 'const isKnown = mounts.some(',
  },
  {
    name: 'a driver that does not see the host undoes nothing',
    ...client('ending'),
    text: 'if (!(await seesHost(queue))) {',
    replacement: 'if (queue === null) {',
  },
  {
    name: 'a driver that does not see the host takes no client for dead',
    ...client('side'),
    text: 'return seesHost(this.#host);',
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
