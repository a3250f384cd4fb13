import type { Mutant } from '../mutant.ts';

const content = { file: 'src/pool/location/content.ts', killer: 'src/pool/location/content.test.ts' } as const;
const identity = {
  file: 'src/kernel/block/disk-identity.ts',
  killer: 'src/kernel/block/disk-identity.test.ts',
} as const;

const labelling = {
  file: 'src/pool/kinds/disk/label/labelling.ts',
  killer: 'src/pool/kinds/disk/label/labelling.test.ts',
} as const;
const slots = {
  file: 'src/pool/kinds/disk/label/slots.ts',
  killer: 'src/pool/kinds/disk/label/slots.test.ts',
} as const;

const adopted = {
  file: 'src/pool/kinds/disk/adopted-disk.ts',
  killer: 'src/pool/kinds/disk/adopted-disk.test.ts',
} as const;

const claim = {
  file: 'src/pool/kinds/disk/match/claim.ts',
  killer: 'src/pool/kinds/disk/match/claim.test.ts',
} as const;

const copies = { file: 'src/pool/kinds/disk/label-copies.ts', killer: 'test/pool/disk-label.test.ts' } as const;
const twins = { file: 'src/pool/kinds/disk/twins.ts', killer: 'test/pool/disk-twins.test.ts' } as const;

const foreignDisk = { killer: 'test/pool/foreign-disk.test.ts' } as const;

/** What a disk is, and whether it may be formatted. */
export const diskMutants: readonly Mutant[] = [
  {
    name: 'a disk without a signature is formatted only if its beginning is zeros',
    ...content,
    text: "content.kind === 'blank' && isZeros(beginning)",
    replacement: "content.kind === 'blank'",
  },
  {
    name: 'a disk of which a format was begun holds nothing but that',
    ...content,
    text: 'if (begunUuid !== undefined && isOwnFormat(content, beginning, begunUuid)) {',
    replacement: 'if (begunUuid !== undefined) {',
  },
  {
    name: 'a signature of somebody else is not our format',
    ...content,
    text: "  if (content.kind !== 'blank' && !isOwnSignature) return false;\n",
    replacement: '',
  },
  {
    name: 'a superblock with another UUID is not our format',
    ...content,
    text: '  if (hasSuperblock(beginning) && !beginning.subarray(uuidAt, uuidAt + uuidBytes).equals(own)) return false;\n',
    replacement: '',
  },
  {
    name: 'a block that is neither zeros nor of our UUID is not our format',
    ...content,
    text: '    if (!block.includes(own) && !isZeros(block)) return false;\n',
    replacement: '',
  },
  {
    name: 'a filesystem of another kind is not mounted as a pool',
    ...content,
    text: "if (content.type === 'xfs') return { kind: 'mount' };",
    replacement: "return { kind: 'mount' };",
  },
  {
    name: 'signatures of several kinds are not formatted',
    ...content,
    text: "return { kind: 'foreign', what: 'signatures of several kinds' };",
    replacement: "return { kind: 'format' };",
  },
  {
    name: 'a format that came to its end is told from one that did not',
    ...content,
    text: "isMarkedComplete(beginning) ? 'finished' : 'format'",
    replacement: "'format'",
  },
  {
    name: 'a log in which something stands behind its first record was used',
    ...content,
    text: '  return isZeros(log.subarray(logBlockBytes + Math.ceil(log.readUInt32BE(12) / logBlockBytes) * logBlockBytes));',
    replacement: '  return true;',
  },
  {
    name: 'a log that does not begin with a record was used',
    ...content,
    text: '  if (log.readUInt32BE(0) !== recordMagic) return false;\n',
    replacement: '',
  },
  {
    name: 'a disk of another size is another disk',
    ...identity,
    text: '  if (a.sizeBytes !== b.sizeBytes) return false;\n',
    replacement: '',
  },
  {
    name: 'a disk of another name is another disk',
    ...identity,
    text: 'return a.name.startsWith(passingPrefix) && b.name.startsWith(passingPrefix) && bootOf(a) !== bootOf(b);',
    replacement: 'return true;',
  },
  {
    name: 'two disks that this kernel tells apart are two',
    ...identity,
    text: ' && bootOf(a) !== bootOf(b);',
    replacement: ';',
  },
  {
    name: 'a disk with a persistent name is known by it after a reboot',
    ...identity,
    text: 'a.name.startsWith(passingPrefix) && b.name.startsWith(passingPrefix) && ',
    replacement: '',
  },
  {
    name: 'a disk is labelled only if its end is zeros, too',
    ...labelling,
    text: 'isOwn(ends.front, undefined) && isOwn(ends.tail, undefined)',
    replacement: 'isOwn(ends.front, undefined)',
  },
  {
    name: 'a labelling that was begun goes on only where there is nothing else',
    ...labelling,
    text: 'if (!piece.every((byte, at) => byte === 0 || byte === wanted?.[start + at])) return false;',
    replacement: 'if (wanted === undefined) return false;',
  },
  {
    name: 'a copy of a label that is not whole does not count',
    ...slots,
    text: '!digestOf(slot, lengthBytes).equals(slot.subarray(digestAt, headBytes))',
    replacement: 'false',
  },
  {
    name: 'the newest copy of a label counts',
    ...slots,
    text: 'a.sequence > b.sequence ? -1 : 1',
    replacement: 'a.sequence > b.sequence ? 1 : -1',
  },
  {
    name: 'a label of a newer driver is not passed over',
    ...slots,
    text: "  if (found.includes('newer')) return { kind: 'newer' };\n",
    replacement: '',
  },
  {
    name: 'no other disk is taken for the one that was adopted',
    ...adopted,
    text: "  if (name !== disk.name) return 'disk';\n",
    replacement: '',
  },
  {
    name: 'no other filesystem is taken for the one that was adopted',
    ...adopted,
    text: "uuid === filesystem.uuid ? undefined : 'filesystem'",
    replacement: 'undefined',
  },
  {
    name: 'a disk that another pool names is not matched',
    ...claim,
    text: 'owners.length > 0',
    replacement: 'false',
  },
  {
    name: 'a disk whose name another one has is not matched',
    ...claim,
    text: 'namesakes.length > 0',
    replacement: 'false',
  },
  {
    name: 'of two sections that match a disk neither takes it',
    ...claim,
    text: '  if (wanting.length > 1) return passedOver(twoSections(wanting));\n',
    replacement: '',
  },
  {
    name: 'a disk that was matched keeps its pool, whatever matches it now',
    ...claim,
    text: "  if (member !== undefined) return { kind: 'member', poolName: member.poolName };\n",
    replacement: '',
  },
  {
    name: 'a second device of a disk of a volume group is noticed',
    file: 'src/pool/kinds/lvm/commands/difference.ts',
    killer: 'src/pool/kinds/lvm/commands/difference.test.ts',
    text: 'return path === undefined || pvUuid === undefined ? undefined : { path, pvUuid };',
    replacement: "return path === pvUuid ? { path: '', pvUuid: '' } : undefined;",
  },
  {
    name: 'what cannot be read is no end',
    file: 'src/kernel/file/file.ts',
    killer: 'test/kernel/file.test.ts',
    text: 'const more = length < lengthBytes ?',
    replacement: 'const more = length === 0 ?',
  },
  {
    name: 'nothing is formatted for a pool that the node knows',
    ...foreignDisk,
    file: 'src/pool/location/format.ts',
    only: 'DK02',
    text: '    refuseSmall(location, device);\n    await refuseKnown(',
    replacement: '    refuseSmall(location, device);\n    void (',
  },
  {
    name: 'an XFS is looked at before it is mounted for writing',
    ...foreignDisk,
    file: 'src/pool/location/mount.ts',
    only: 'DK05',
    text: 'if (!isNew) await requireOwnFilesystem(',
    replacement: 'if (isNew) await requireOwnFilesystem(',
  },
  {
    name: 'a disk that a process has open is not taken',
    ...foreignDisk,
    file: 'src/pool/location/take-disk.ts',
    only: 'so does a process',
    text: ', ...(await whoHasItOpen(found))]',
    replacement: ']',
  },
  {
    name: 'a disk that only looks blank at its beginning is not taken',
    ...foreignDisk,
    file: 'src/pool/location/take-disk.ts',
    only: 'what lies at its end',
    text: 'factsOf(queue, found, own === undefined ? device : undefined)',
    replacement: 'factsOf(queue, found, undefined)',
  },
  {
    name: 'what a known pool lies in is not made anew',
    ...foreignDisk,
    file: 'src/pool/location/location.ts',
    only: 'DK04',
    text: 'if (knownId !== undefined && !(await exists(queue, path))) throw',
    replacement: 'if (knownId !== undefined && poolName === path) throw',
  },
  {
    name: 'a filesystem that others have mounted does not become a pool',
    ...foreignDisk,
    file: 'src/pool/location/whose.ts',
    only: 'DK06',
    text: 'if (await isMounted(queue, devicePath)) return requireMountedPool(location);',
    replacement: 'if (await isMounted(queue, devicePath)) return;',
  },
  {
    name: 'a disk with a loop device over it is used',
    file: 'src/pool/location/disk-survey.ts',
    killer: 'src/pool/location/disk-survey.test.ts',
    text: 'partition.holders), ...over];',
    replacement: 'partition.holders)];',
  },
  {
    name: 'a table of somebody else beside a half of ours is seen',
    ...labelling,
    text: '  if (isMixed) return',
    replacement: '  if (isMixed && false) return',
    only: 'DK01',
  },
  {
    name: 'a half of the table that is damaged in more than one place is not taken for ours',
    ...labelling,
    text: '.size > 1)',
    replacement: '.size > 1000)',
    only: 'DK01',
  },
  {
    name: 'what another node has written to the label of a disk is not written over',
    ...copies,
    text: '!this.#own.some((own) => isOwn(read.slot, own))',
    replacement: 'this.#own.length > 100',
    only: 'H4',
  },
  {
    name: 'once another node has written the label of a disk, it is not written again',
    ...copies,
    text: '    this.lost.throwIfAborted();\n',
    replacement: '',
    only: 'H4',
  },
  {
    name: 'a health check does not take own writes for those of another node',
    ...copies,
    text: 'isUndisturbed() && ',
    replacement: '',
    only: 'H4: a health check',
  },
  {
    name: 'what was begun on a disk ends once another node is known to have written its label',
    ...copies,
    text: '      this.#lost.abort(error);\n',
    replacement: '',
    only: 'H4',
  },
  {
    name: 'the label is read before the first byte of what a disk has is read or written',
    file: 'src/pool/kinds/disk/disk-backend.ts',
    text: '  await label.refresh();\n',
    replacement: '',
    killer: 'src/pool/kinds/disk/foreign-label.test.ts',
    only: 'H4',
  },
  {
    name: 'a label is its own also where a write has failed',
    ...copies,
    text: '    this.#own = [...this.#own, next];\n',
    replacement: '',
    only: 'a copy of its own',
  },
  {
    name: 'a disk that only has the name of another one is not taken for its copy',
    ...twins,
    text: ' || !(await hasPool(twin, seen))',
    replacement: '',
    only: 'nothing of the pool',
  },
  {
    name: 'a copy of a disk is told from another path to it',
    ...twins,
    text: ' && isSame(a, b)',
    replacement: '',
    only: 'a copy is not',
  },
  {
    name: 'a table of ours that another program has written anew is ours',
    ...labelling,
    text: '!half.isOurs && ',
    replacement: '',
    only: 'H6',
  },
  {
    name: 'a table that names another partition beside ours is not ours alone',
    ...labelling,
    text: ' && !hasMoreEntries(entries)',
    replacement: '',
    only: 'H6',
  },
  {
    name: 'one sector that cannot be read is not all that is there',
    file: 'src/kernel/file/file.ts',
    killer: 'test/kernel/file.test.ts',
    text: '      piece.fill(unreadableByte);\n',
    replacement: '      piece.fill(0);\n',
    only: 'DK10',
  },
  {
    name: 'a disk for a volume group is looked at again when it is taken',
    ...foreignDisk,
    file: 'src/pool/kinds/lvm/taken-disk.ts',
    text: 'return locateDevice(queue, found.path, found.device);',
    replacement: 'return found;',
    only: 'H28',
  },
  {
    name: 'a device that somebody has activated, and nobody uses, keeps no volume in use',
    file: 'src/pool/catalog/in-use.ts',
    killer: 'src/pool/catalog/in-use.test.ts',
    text: '  await detachUnseen(queue, attacher, id);\n',
    replacement: '',
    only: 'lvm 13',
  },
  {
    name: 'what a volume is made of is not told as something inside of it',
    file: 'src/cli/checks/nested.ts',
    killer: 'src/cli/checks/nested.test.ts',
    text: '      if (above !== undefined && isOurs(above)) return [];\n',
    replacement: '',
    only: 'EN08',
  },
  {
    name: 'a blank disk that was just attached is left to others for a minute',
    file: 'src/pool/kinds/disk/match/age.ts',
    killer: 'src/pool/kinds/disk/match/age.test.ts',
    text: 'deviceMs !== undefined && deviceMs >= othersFirstMs',
    replacement: 'deviceMs !== undefined',
    only: 'DK12',
  },
  {
    name: 'a device that is gone each time it is opened is not looked for without an end',
    file: 'src/pool/mapped-device.ts',
    killer: 'test/pool/open-still.test.ts',
    text: '[...pausesMs, undefined]',
    replacement: '[...pausesMs, ...pausesMs, undefined]',
    only: 'H21',
  },
  {
    name: 'a device that is opened is the one that was found',
    file: 'src/pool/mapped-device.ts',
    killer: 'test/pool/open-still.test.ts',
    text: 'if (sameDevice(deviceNumber(rdev), device) && sameDevice(await numberNow(), device)) return descriptor;',
    replacement: 'if (sameDevice(deviceNumber(rdev), device)) return descriptor;',
  },
];
