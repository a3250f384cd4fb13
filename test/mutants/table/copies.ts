import type { Mutant } from '../mutant.ts';

const copy = { file: 'src/pool/kinds/image/copy.ts', killer: 'test/pool/copy.test.ts' } as const;
const freezer = { file: 'src/pool/freeze/freezer.ts', killer: 'test/pool/freezer.test.ts' } as const;
const standstill = { file: 'src/pool/freeze/standstill.ts', killer: 'test/pool/freezer.test.ts' } as const;
const cuts = { file: 'src/pool/catalog/snapshots.ts', killer: 'test/grpc/clone-copy.test.ts' } as const;
const group = { file: 'src/pool/catalog/snapshots.ts', killer: 'test/contract/image.test.ts' } as const;
const source = { file: 'src/pool/freeze/freeze-target.ts', killer: 'test/grpc/snapshot.test.ts' } as const;
const ext4 = { file: 'src/pool/filesystem/ext4-identity.ts', killer: 'test/pool/ext4-identity.test.ts' } as const;
const ext4Blocks = { ...ext4, file: 'src/pool/filesystem/ext4-superblock.ts' } as const;
const xfs = { file: 'src/pool/filesystem/xfs-identity.ts', killer: 'test/pool/xfs-identity.test.ts' } as const;
const template = { file: 'src/pool/kinds/image/template.ts', killer: 'test/pool/templates.test.ts' } as const;
const templates = { file: 'src/pool/kinds/image/templates.ts', killer: 'test/pool/templates.test.ts' } as const;
const xfsLog = { ...xfs, file: 'src/pool/filesystem/xfs-log.ts' } as const;

/** Copies that are whole, and cuts at one instant. */
export const copyMutants: readonly Mutant[] = [
  {
    name: 'a copy goes on only with what is of its own source',
    ...copy,
    text: 'progress.data.source === identity ? BigInt',
    replacement: 'identity ? BigInt',
  },
  {
    name: 'a copy begins without what another one left',
    ...copy,
    text: '    await queue.run(() => rm(data, { force: true }));\n',
    replacement: '',
  },
  {
    name: 'the note of another copy goes before its data is written over',
    ...copy,
    text: '    await queue.run(() => rm(state, { force: true }));\n    await syncs.sync(queue, copy.directory);\n',
    replacement: '',
  },
  {
    name: 'a copy has the size of its source',
    ...copy,
    text: '  await resizeFile(queue, data, source.size);\n',
    replacement: '',
    killer: 'test/grpc/clone-copy.test.ts',
    only: 'CV25 CV27',
  },
  {
    name: 'a copy that nobody waits for stops',
    ...copy,
    text: '      copy.signal?.throwIfAborted();\n',
    replacement: '',
    killer: 'test/pool/copy.test.ts',
  },
  {
    name: 'a source that has changed is another one',
    ...copy,
    text: 'source.mtimeNs',
    replacement: '0n',
  },
  {
    name: 'a volume in use is not copied for a snapshot',
    ...cuts,
    text: "    if (backend.traits.snapshots === 'copy') await refuseCopyInUse(this.#parts, spec.sourceId);\n",
    replacement: '',
    only: 'a volume in use is FAILED_PRECONDITION',
  },
  {
    name: 'a volume in use is not copied for a clone',
    file: 'src/pool/catalog/creation.ts',
    text: '    if (isCopy && cloned.volumeId !== undefined) await refuseCopyInUse(this.#parts, cloned.volumeId);\n',
    replacement: '',
    killer: 'test/grpc/clone-copy.test.ts',
    only: 'a volume in use is FAILED_PRECONDITION',
  },
  {
    name: 'raw block volumes in use are not cut together',
    ...group,
    text: '    if (takings.length > 1) refuseUnfreezable(takings);\n',
    replacement: '',
    only: 'backing file.*raw block volumes in use cannot',
  },
  {
    name: 'a cut that failed leaves no member',
    ...group,
    text: '      await this.#undo(takings, group);\n',
    replacement: '',
    killer: 'test/pool/failed-cut.test.ts',
    only: 'cut failed half way',
  },
  {
    name: 'members of a group are there only with it',
    ...group,
    text: 'await this.#discard([...snapshotIndex.all()].filter(({ groupId }) => groupId === id).map((member) => member.id));',
    replacement: 'await this.#discard([...snapshotIndex.all()].filter(() => false).map((member) => member.id));',
    only: 'backing file.*members come and go with their group',
  },
  {
    name: 'members whose group was never committed go at the start',
    ...group,
    text: '.filter((record) => !snapshotIndex.hasItsGroup(record))',
    replacement: '.filter((record) => snapshotIndex.hasItsGroup(record) === undefined)',
    killer: 'test/pool/failed-cut.test.ts',
    only: 'was killed before it',
  },
  {
    name: 'a snapshot under the id of another is not cut',
    ...group,
    text: '    if (snapshotIndex.get(spec.id) !== undefined) throw',
    replacement: '    if (snapshotIndex.get(spec.id) === null) throw',
    only: 'backing file.*a snapshot is found and listed',
  },
  {
    name: 'what cannot be frozen is not cloned',
    ...source,
    text: '  if (!table.some((mount) => isMountOf(mount, writable))) throw',
    replacement: '  if (table.length === 0) throw',
    only: 'lives on in another mount namespace',
  },
  {
    name: 'writers are not held up for longer than it is said',
    ...freezer,
    text: '    if (lastMs <= this.#longestMs) return;\n',
    replacement: '    if (lastMs) return;\n',
    only: 'if writers would have to wait',
  },
  {
    name: 'what takes long is done ahead',
    ...freezer,
    text: '      if (isWritten) await this.#goAhead(targets, mounted, cut);\n',
    replacement: '',
    only: 'what takes long is done ahead',
  },
  {
    name: 'filesystems that a killed driver left frozen are thawed at the start',
    ...freezer,
    text: "        if (await step('open/thaw', () => thawUnlessSick(this.#thawQueue, directory))) thawed++;\n",
    replacement: '',
    killer: 'test/contract/image.test.ts',
    only: 'backing file.*left frozen is thawed at the start',
  },
  {
    name: 'what somebody else froze is left so',
    ...standstill,
    text: "      if (!isErrno(error, 'EBUSY')) throw error;\n      throw new FailedPrecondition(",
    replacement:
      "      if (!isErrno(error, 'EBUSY')) throw error;\n      if (error) return;\n      throw new FailedPrecondition(",
    killer: 'test/contract/image.test.ts',
    only: 'backing file.*somebody else froze',
  },
  {
    name: 'an ext4 with a journal to be replayed gets its UUID after that',
    ...ext4,
    text: "  if (needsRecovery) return 'journal';\n",
    replacement: '',
    only: 'after a crash',
  },
  {
    name: 'an ext4 whose UUID is a key keeps it',
    ...ext4,
    text: "  if (keepsUuid) return 'kept';\n",
    replacement: '',
    only: 'what is encrypted',
  },
  {
    name: 'an ext4 whose groups have checksums by its UUID is left to a program',
    ...ext4,
    text: "  if (hasGroupChecksums) return 'program';\n",
    replacement: '',
    only: 'no checksums and groups of the old kind',
  },
  {
    name: 'an ext4 keeps the seed of its checksums under another UUID',
    ...ext4Blocks,
    text: '(block.readUInt32LE(at.incompat) | INCOMPAT_CSUM_SEED) >>> 0',
    replacement: 'block.readUInt32LE(at.incompat)',
    only: 'as the driver makes it',
  },
  {
    name: 'the last record of the log of an XFS gets the UUID, too',
    ...xfs,
    text: 'bytes: log.withUuid(record, uuid).bytes.subarray(0, log.logBlockBytes)',
    replacement: 'bytes: record.bytes.subarray(0, log.logBlockBytes)',
    only: 'as the driver makes it',
  },
  {
    name: 'the log of an XFS ends with an unmount before its UUID is changed',
    ...xfsLog,
    text: '    bytes.readUInt32BE(at.operations) === 1 &&\n    bytes.readUInt8(dataStart + operationAt.client) === CLIENT_LOG &&\n    (bytes.readUInt8(dataStart + operationAt.flags) & UNMOUNT_TRANS) !== 0\n',
    replacement: '    true\n',
    only: 'cut while it is frozen',
  },
  {
    name: 'a volume that is cloned from a template has a UUID of its own',
    ...template,
    text: '  await writePieces(place.queue, image, template.renewal(newUuid()));\n',
    replacement: '',
    only: 'sixteen callers',
  },
  {
    name: 'a template that an earlier driver has left is tried before it is used',

    ...template,
    text: '    await withDevice(queue, image, (device) => mountBriefly(queue, request.fsType, device));\n',
    replacement: '',
    only: 'the next driver',
  },
  {
    name: 'a volume that is made of a template where blocks are to be its own shares none',
    ...template,
    text: "    if (cloning === 'copy') await",
    replacement: '    if (pieces.length > 0) await',
    only: 'a thick volume',
  },
  {
    name: 'a template that was cut off makes no volume',
    ...template,
    text: ' !== sizeBytes) throw new TemplateGone',
    replacement: ' < 0n) throw new TemplateGone',
    only: 'cut off by hand',
  },
  {
    name: 'what each volume has of its own is written to holes',
    ...template,
    text: '      await punchHole(queue, seed, { offsetBytes, lengthBytes: BigInt(bytes.length) });\n',
    replacement: '',
    only: 'takes no more of XFS',
  },
  {
    name: 'a template that goes gives its blocks back',
    ...templates,
    text: '    await this.#seeds.release(name);\n  }\n\n  #forget',
    replacement: '  }\n\n  #forget',
    only: 'takes no more of XFS',
  },
  {
    name: 'what another mkfs has made goes',
    ...templates,
    text: '&& !name.startsWith(current)',
    replacement: '&& false',
    only: 'what another mkfs',
  },
  {
    name: 'templates go when their space is needed',
    ...templates,
    file: 'src/pool/space/space-ledger.ts',
    text: '      if (await this.#observer.clearTemplates()) continue;\n',
    replacement: '',
    only: 'they go when their space is needed',
  },
  {
    name: 'space is held while a template is made',
    ...templates,
    text: "    if (held === undefined) return 'no room';\n",
    replacement: '',
    only: 'they go when their space is needed',
  },
  {
    name: 'what a new volume shares with a template it does not own',
    ...templates,
    file: 'src/pool/space/space-observer.ts',
    text: "return isFresh && sharing !== 'anything' ? 'fresh' : sharing;",
    replacement: 'return sharing;',
    only: 'a new volume owns nothing',
  },
];
