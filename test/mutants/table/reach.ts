import type { Mutant } from '../mutant.ts';

const handle = { file: 'src/volume/handle.ts', killer: 'src/volume/handle.test.ts' } as const;
const context = { file: 'src/pool/volume-context.ts', killer: 'src/pool/volume-context.test.ts' } as const;
const volumes = {
  file: 'src/pool/on-node/context-volumes.ts',
  killer: 'test/grpc/context-volumes.test.ts',
} as const;
const servers = { file: 'src/pool/on-node/servers.ts', killer: 'src/pool/on-node/servers.test.ts' } as const;
const gone = { file: volumes.file, killer: 'test/pool/context-owner.test.ts' } as const;

const publication = {
  file: 'src/controller/publication/publish.ts',
  killer: 'test/grpc/cluster-pool.test.ts',
} as const;
const namespaces = {
  file: 'src/pool/kinds/nvme-tcp/namespaces.ts',
  killer: 'src/pool/kinds/nvme-tcp/namespaces.test.ts',
} as const;
const connections = {
  file: 'src/pool/kinds/nvme-tcp/connections.ts',
  killer: 'src/pool/kinds/nvme-tcp/connections.test.ts',
} as const;

const uses = { file: 'src/pool/network-disk/disk-uses.ts', killer: 'test/pool/disk-uses.test.ts' } as const;

const iscsi = (file: 'connections' | 'context' | 'identity' | 'record') =>
  ({ file: `src/pool/kinds/iscsi/${file}.ts`, killer: `src/pool/kinds/iscsi/${file}.test.ts` }) as const;

/** Volumes that any node of the cluster can reach. */
export const reachMutants: readonly Mutant[] = [
  {
    name: 'a volume that a person named is published only if its context names one',
    file: 'src/controller/publication/provided.ts',
    killer: 'test/grpc/cluster-pool.test.ts',
    text: "  const { context, kind } = kindOfContext(given, nodeKinds);\n  kind.read(context, { access: access.type, fsType: access.type === 'mount' ? access.fsType : undefined });\n",
    replacement: '',
    only: 'one that a person named',
  },
  {
    name: 'a handle that cannot be shown on one line is refused',
    ...handle,
    text: '  if (controlCharacter.test(text) || !text.isWellFormed()) return undefined;\n',
    replacement: '',
  },
  {
    name: 'a handle that a person wrote never becomes the name of a file',
    ...handle,
    text: '  return parseVolumeId(handle) ?? ',
    replacement: '  return handle ?? ',
  },
  {
    name: 'a key that no volume of the kind has is refused in a context',
    ...context,
    text: '  if (unknown !== undefined) {\n',
    replacement: '  if (unknown === null) {\n',
  },
  {
    name: 'a context of a later version is refused',
    ...context,
    text: '  if (version !== contextVersion) {\n',
    replacement: '  if (version === null) {\n',
  },
  {
    name: 'a volume without a record is noted before it is mounted',
    file: 'src/node/stage/stage.ts',
    killer: 'test/grpc/context-volumes.test.ts',
    text: '    await hold();\n    await mountDirectory',
    replacement: '    await mountDirectory',
    only: 'by a driver that was started since',
  },
  {
    name: 'a handle stands for one volume as long as that is in use',
    ...volumes,
    text: '    if (note !== undefined) await this.#requireSame(note, kind, volume);\n',
    replacement: '',
    only: 'its handle with another context',
  },
  {
    name: 'the log of an XFS on a server is emptied after it has grown',
    ...volumes,
    text: '    await this.#server.freezer.settle(this.handle, directory);\n',
    replacement: '',
    only: 'has nothing in the log of its XFS',
  },
  {
    name: 'what a driver has left frozen on a server is thawed by the next one',
    ...volumes,
    text: '    await access.thawLeft();\n',
    replacement: '',
    only: 'is thawed by the next driver',
  },
  {
    name: 'what is mounted from a device that is gone is unmounted',
    ...gone,
    text: ' ?? shownByNote(note, kind, seen);',
    replacement: ';',
  },
  {
    name: 'what is mounted from a device that is gone is a volume only where that was put',
    ...gone,
    text: ' || mount === undefined || !isAt(note, target)',
    replacement: ' || mount === undefined',
  },
  {
    name: 'mounts of another PersistentVolume with the same data are not taken for those of this one',
    ...volumes,
    text: 'note.volume.handle !== handle && isAt(note, target)',
    replacement: 'note === undefined',
    only: 'another PersistentVolume with the same data',
  },
  {
    name: 'what is mounted is taken for the volume that was put there, of two with the same data',
    ...volumes,
    text: '(isAt(note, seen.target) ? 0 :',
    replacement: '(false ? 0 :',
    only: 'another PersistentVolume with the same data',
  },
  {
    name: 'calls for a server that hangs are given up',
    ...servers,
    text: '      queue.close(new Unavailable(',
    replacement: '      void (new Unavailable(',
  },
  {
    name: 'a server that hangs takes no more threads than its share, however often it is tried',
    ...servers,
    text: '    if (lost.length >= maxLostQueues) throw',
    replacement: '    if (lost.length < 0) throw',
  },
  {
    name: 'one driver has pools of its node, or pools that every node can reach',
    file: 'src/config/side.ts',
    killer: 'src/config/side.test.ts',
    text: 'ofCluster.length > 0 && local.length > 0',
    replacement: 'ofCluster.length < 0',
  },
  {
    name: 'a home that takes over gives a name the id that it had',
    file: 'src/pool/pool.ts',
    killer: 'test/grpc/cluster-pool.test.ts',
    text: "volumeIdFor('cluster', cluster.id, volumeName)",
    replacement: 'volumeIdFor(nodeId, name, volumeName)',
    only: 'T03',
  },
  {
    name: 'two nodes have a volume at once only in modes for several nodes',
    ...publication,
    text: '  if (!isMultiNode(one.mode) || !isMultiNode(other.mode)) return false;\n',
    replacement: '',
    only: 'in a mode for several nodes only',
  },
  {
    name: 'a mode with one writer has one writer',
    ...publication,
    text: 'return !isSingleWriter || ',
    replacement: 'return true || ',
    only: 'has one writer',
  },
  {
    name: 'a connection of another host NQN is never ended',
    ...connections,
    text: ' &&\n    controller.hostNqn === connection.hostNqn',
    replacement: '',
  },
  {
    name: 'a connection that somebody has made again since is never ended',
    ...connections,
    text: ' && (each.controller ?? controller.name) === controller.name',
    replacement: '',
  },
  {
    name: 'no connection is ended for a note of an earlier boot',
    file: 'src/pool/network-disk/connection-notes.ts',
    killer: connections.killer,
    text: ' || parsed.data.boot !== boot',
    replacement: '',
  },
  {
    name: 'a disk of a network is not used through two devices',
    file: 'src/pool/network-disk/side.ts',
    killer: uses.killer,
    text: '      await this.#state.uses.begin(this.#queue, volume.handle, { ...found, noun: this.#target.noun });\n',
    replacement: '',
  },
  {
    name: 'a disk whose filesystem is in use through another device is refused',
    ...uses,
    text: 'if (live !== undefined)',
    replacement: 'if (live === null)',
  },
  {
    name: 'a disk that a program has through another device is refused',
    ...uses,
    text: 'if (await isHeld(queue, devicePath))',
    replacement: 'if (devicePath === undefined)',
  },
  {
    name: 'of two volumes that are one disk, and come at once by two devices, one is refused',
    ...uses,
    text: 'if (user === handle || use.disk',
    replacement: 'if (user !== undefined || use.disk',
  },
  {
    name: 'a volume that leaves lets another one use its disk',
    file: 'src/pool/network-disk/leave.ts',
    killer: uses.killer,
    text: '  uses.end(handle);\n',
    replacement: '',
  },
  {
    name: 'a key of in-band authentication is not repeated from the log of the kernel',
    file: 'src/kernel/block/nvme-words.ts',
    killer: 'src/kernel/block/nvme-words.test.ts',
    text: '/dhchap|secret|DHHC/i.test(message)',
    replacement: 'message === record',
  },
  {
    name: 'a namespace is known by the identity that its PersistentVolume names',
    ...namespaces,
    text: 'each[kind] === digits',
    replacement: 'each.uuid === digits || each.nguid === digits',
  },
  {
    name: 'a filesystem on a namespace is never for several nodes',
    file: 'src/pool/device-content.ts',
    killer: namespaces.killer,
    text: ', accessModes: singleNodeModes };',
    replacement: ' };',
  },
  {
    name: 'nothing in a context becomes another option of a connection',
    file: 'src/pool/kinds/nvme-tcp/context.ts',
    killer: 'src/pool/kinds/nvme-tcp/context.test.ts',
    text: '/^[!-+\\--~]{1,223}$/',
    replacement: '/^[^\\n]{1,223}$/',
  },
  {
    name: 'a session of the host is never ended',
    ...iscsi('connections'),
    text: '!isNamedOurs(session) || ',
    replacement: '',
  },
  {
    name: 'a session that somebody has made again since is never ended',
    ...iscsi('connections'),
    text: ' && (each.session ?? id) === id',
    replacement: '',
  },
  {
    name: 'a logical unit that is another than its PersistentVolume names is refused',
    ...iscsi('identity'),
    text: 'wwid !== undefined && wwid !== identity',
    replacement: 'wwid === null',
  },
  {
    name: 'a logical unit that becomes another one while it is in use is refused',
    ...iscsi('identity'),
    text: 'seen !== undefined && seen !== placed(lun, identity)',
    replacement: 'seen === null',
  },
  {
    name: 'a device stays as long as another volume may be at its place',
    ...iscsi('identity'),
    text: '(identities[each] ?? ',
    replacement: "(identities[each] ?? 'unknown' ?? ",
  },
  {
    name: 'a name or password of CHAP is one line of a record',
    ...iscsi('record'),
    text: '/^[!-~]([ -~]{0,253}[!-~])?$/',
    replacement: '/^[^]{1,255}$/',
  },
  {
    name: 'a password of CHAP lies in memory that no other program sees',
    file: 'src/command/iscsiadm.ts',
    killer: 'test/command/iscsi-login.test.ts',
    text: '  mount -t tmpfs -o mode=0700,size=1m holdfast "$root/nodes"\n',
    replacement: '',
  },
  {
    name: 'a login works where the database of open-iscsi is in two places by a symbolic link',
    file: 'src/command/iscsiadm.ts',
    killer: 'test/command/iscsi-login.test.ts',
    text: '  mkdir -p "$root/nodes/$iqn"\n',
    replacement: '  mkdir "$root/nodes/$iqn"\n',
  },
  {
    name: 'a port has one form, which is that of the kernel',
    file: 'src/pool/network-disk/portals.ts',
    killer: 'src/pool/kinds/iscsi/context.test.ts',
    text: 'port: String(port) }',
    replacement: 'port: given ?? usualPort }',
  },
  {
    name: 'an iqn leads to no other file of open-iscsi',
    ...iscsi('context'),
    text: '[a-z0-9.:-]{1,219}',
    replacement: '[!-~]{1,219}',
  },
  {
    name: 'a filesystem on a logical unit is never for several nodes',
    file: 'src/pool/device-content.ts',
    killer: 'src/pool/kinds/iscsi/context.test.ts',
    text: ', accessModes: singleNodeModes };',
    replacement: ' };',
  },
  {
    name: 'a volume is made only for access modes that its pool has',
    file: 'src/controller/volumes/volume-spec.ts',
    killer: 'test/grpc/controller-create.test.ts',
    text: '  requireModes(pool, demand, onUnsupported);\n',
    replacement: '',
    only: 'A05',
  },
  {
    name: 'a mount that is not known to be the volume keeps an unstage from success',
    file: 'src/pool/on-node/context-volumes.ts',
    killer: 'test/grpc/context-volumes.test.ts',
    only: 'may be forgotten',
    text: '    await this.#requireUnmounted(note, place);\n',
    replacement: '',
  },
  {
    name: 'a note on a volume of an unknown kind is not removed',
    file: 'src/pool/on-node/context-volumes.ts',
    killer: 'test/grpc/context-volumes.test.ts',
    only: 'a kind that it does not know',
    text: '    const kind = this.#requireKind(note);\n    if (kind.traits',
    replacement:
      '    const kind = this.#kindOf(note);\n    if (kind === undefined) return await this.#notes.remove(note.volume.handle);\n    if (kind.traits',
  },
  {
    name: 'a volume whose note cannot be read is not let go',
    file: 'src/pool/on-node/context-volumes.ts',
    killer: 'test/grpc/context-volumes.test.ts',
    only: 'a note that is damaged',
    text: '    this.#notes.requireReadable(handle);\n    const note = this.#notes.read(handle);\n    if (note === undefined) return;',
    replacement: '    const note = this.#notes.read(handle);\n    if (note === undefined) return;',
  },
  {
    name: 'the mounts of a volume of an unknown kind end',
    file: 'src/pool/on-node/context-volumes.ts',
    killer: 'test/grpc/context-volumes.test.ts',
    only: 'a kind that it does not know',
    text: "  return seen.mount !== undefined && isAt(note, seen.target) ? 'whole' : undefined;",
    replacement: '  return undefined;',
  },
  {
    name: 'a note that only another version reads hinders no other volume',
    file: 'src/pool/on-node/noted-volume.ts',
    killer: 'test/grpc/context-volumes.test.ts',
    only: 'hinders no other',
    text: '    if (error instanceof HoldfastError) return undefined;\n',
    replacement: '',
  },
  {
    name: 'a stage that cannot be undone is not final for the kubelet',
    file: 'src/node/let-go-after.ts',
    killer: 'test/grpc/context-volumes.test.ts',
    only: 'that fails and cannot be undone',
    text: '    return new Unavailable(',
    replacement: '    return error ?? new Unavailable(',
  },
];
