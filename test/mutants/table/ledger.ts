import type { Mutant } from '../mutant.ts';

const ledger = { file: 'src/pool/space/space-ledger.ts', killer: 'test/pool/space.test.ts' } as const;
const holds = { file: 'src/pool/space/space-holds.ts', killer: 'test/pool/space.test.ts' } as const;
const observer = { file: 'src/pool/space/space-observer.ts', killer: 'test/pool/space.test.ts' } as const;
const volume = { file: 'src/pool/space/volume-space.ts', killer: 'test/pool/space.test.ts' } as const;
const creation = { file: 'src/pool/catalog/creation.ts', killer: 'test/contract/image.test.ts' } as const;
const volumes = { file: 'src/pool/catalog/volumes.ts', killer: 'test/contract/image.test.ts' } as const;
const cuts = { file: 'src/pool/catalog/snapshots.ts', killer: 'test/pool/space.test.ts' } as const;
const thin = { file: 'src/pool/kinds/lvm/thin/sizes.ts', killer: 'src/pool/kinds/lvm/thin/sizes.test.ts' } as const;

const second = 'a second snapshot asks';
const comesBack = 'comes back from the trash asks';
const twoAtOnce = 'two that need room at once';
const chain = 'shared in a chain';
const atOnce = 'never promised the same space';
const refused = 'more than is available is refused';

/** Who asks for space, what is held for whom, and what goes for it. */
export const ledgerMutants: readonly Mutant[] = [
  {
    name: 'a new volume asks for its space',
    ...creation,
    text: '      newBytes: larger(0n, neededBytes - copiedBytes),\n',
    replacement: '      newBytes: 0n * larger(0n, neededBytes - copiedBytes),\n',
    only: refused,
  },
  {
    name: 'a thick volume asks for its blocks',
    ...creation,
    text: `      provisioning: spec.provisioning,
      taken:`,
    replacement: '      taken:',
    killer: 'test/pool/space.test.ts',
    only: 'thick from the start',
  },
  {
    name: 'a volume that grows asks for the rest',
    ...volumes,
    text: '      using _space = await space.hold({ newBytes, provisioning: record.provisioning, isGrowth: true });\n',
    replacement: '',
    only: refused,
  },
  {
    name: 'a volume that is made thick asks for its blocks',
    ...volumes,
    text: '    using _space = await space.hold({ newBytes: 0n, takenBytes: larger(0n, storedBytes(record) - beforeBytes), taken });\n',
    replacement: '    void taken;\n',
    killer: 'test/pool/space.test.ts',
    only: 'is made thick at the cost',
  },
  {
    name: 'what a refused call took is free again',
    ...volumes,
    text: "      if (record.provisioning === 'thin') await thickness.makeThin(record).catch(() => undefined);\n",
    replacement: '',
    killer: 'test/pool/space.test.ts',
    only: 'somebody else was faster',
  },
  {
    name: 'a clone counts what its source may have to write anew',
    ...creation,
    text: 'sourceIds: cloned?.volumeId !== undefined && backend.space.sharesBlocks ? [cloned.volumeId] : [],',
    replacement: 'sourceIds: [],',
    killer: 'test/pool/space-meanwhile.test.ts',
    only: 'a clone that shares',
  },
  {
    name: 'a snapshot counts what its source may have to write anew',
    ...cuts,
    text: 'return { newBytes: 0n, sourceIds: takings.map(({ source }) => source.id) };',
    replacement: 'return { newBytes: 0n, sourceIds: [] };',
    only: second,
  },
  {
    name: 'a snapshot that is a copy asks for what it takes',
    ...cuts,
    text: 'return { newBytes: (await Promise.all(copies)).reduce((sum, bytes) => sum + bytes, 0n) };',
    replacement: 'return { newBytes: 0n * BigInt((await Promise.all(copies)).length) };',
    only: 'each snapshot in a pool that copies',
  },
  {
    name: 'what is written while a snapshot is cut is asked for',
    ...cuts,
    text: '      if (backend.space.sharesBlocks) await held.confirm();\n',
    replacement: '',
    killer: 'test/pool/space-meanwhile.test.ts',
  },
  {
    name: 'what is written while a clone is made is asked for',
    ...creation,
    text: '    await held?.confirm();\n',
    replacement: '',
    killer: 'test/pool/space-meanwhile.test.ts',
  },
  {
    name: 'a volume from the trash asks for what it does not own',
    ...ledger,
    text: 'return this.hold({ newBytes: wholeBytes - ownedBytes(wholeBytes, use) });',
    replacement: 'return this.hold({ newBytes: 0n * ownedBytes(wholeBytes, use) });',
    only: comesBack,
  },
  {
    name: 'space that is held is held for one',
    ...holds,
    text: 'const space = this.#volumes.hold(newBytes + takenBytes);',
    replacement: 'const space = this.#volumes.hold(0n * (newBytes + takenBytes));',
    killer: 'test/contract/image.test.ts',
    only: atOnce,
  },
  {
    name: 'those that need room take their turns',
    ...ledger,
    text: 'const turn = this.#makingRoom.then(() => this.#holdExactly(request, giveUpAtMs));',
    replacement: 'const turn = this.#holdExactly(request, giveUpAtMs);',
    only: twoAtOnce,
  },
  {
    name: 'the trash is not emptied for what does not fit anyway',
    ...ledger,
    text: '      if (needed > this.#reclaimableBytes() + goingBytes) throw this.#exhausted(look, request);\n',
    replacement: '',
    killer: 'test/contract/image.test.ts',
    only: 'backing file.*the trash counts as available',
  },
  {
    name: 'what was deleted first goes first',
    ...ledger,
    text: 'const oldestFirst = trash.expendable().reverse();',
    replacement: 'const oldestFirst = trash.expendable();',
    killer: 'test/contract/image.test.ts',
    only: 'backing file.*the trash counts as available',
  },
  {
    name: 'a filesystem without inodes promises nothing',
    ...ledger,
    text: '|| this.#isOutOfInodes(look) || this.#isFull(look, reclaimableBytes);',
    replacement: '|| this.#isFull(look, reclaimableBytes);',
    killer: 'test/pool/full-disk.test.ts',
    only: 'whose inodes somebody else',
  },
  {
    name: 'what cannot be told of the sharing of blocks counts as shared',
    ...volume,
    text: 'return sharedBytes === undefined ? 0n : ownedBytes',
    replacement: 'return ownedBytes',
    only: second,
  },
  {
    name: 'a map that was begun before blocks were shared is of no use',
    ...volume,
    text: 'figure === undefined || figure.version !== version || this',
    replacement: 'figure === undefined || this',
    killer: 'src/pool/space/volume-space.test.ts',
  },
  {
    name: 'what was held a moment ago may have been taken since',
    ...volume,
    text: 'return this.#heldBytes + this.#releasedBytes - releasedBytes;',
    replacement: 'return this.#heldBytes + 0n * releasedBytes;',
    killer: 'src/pool/space/volume-space.test.ts',
  },
  {
    name: 'when something that shared blocks is gone, others may own them',
    ...observer,
    text: '    for (const other of this.#lineage.sharers(relative)) this.volumes.outdateMap(other);\n',
    replacement: '',
    only: chain,
  },
  {
    name: 'blocks count as shared although the record between is gone',
    ...observer,
    text: "    if (sharesBlocks && !this.#lineage.isAlone(relativeOf(record))) return 'anything';\n",
    replacement: '',
    only: chain,
  },
  {
    name: 'a clone of what was gone before the start may share blocks with everything',
    file: 'src/pool/space/lineage.ts',
    killer: 'src/pool/space/lineage.test.ts',
    text: 'const [source = this.#unknown, ...others] = byId.get(sourceId) ?? [];',
    replacement: 'const [source = node, ...others] = byId.get(sourceId) ?? [];',
  },
  {
    name: 'a size that a volume cannot grow to is final',
    file: 'src/pool/space/space-ledger.ts',
    killer: 'test/grpc/controller-expand.test.ts',
    text: 'request.isGrowth === true ? OutOfRange : ResourceExhausted',
    replacement: 'ResourceExhausted',
  },
  {
    name: 'an ext4 is not grown beyond what its groups can describe',
    file: 'src/node/mount/superblock.ts',
    killer: 'src/node/mount/superblock.test.ts',
    text: '((groupBlocks * 3n) / 4n)',
    replacement: '(groupBlocks * 3n)',
  },
  {
    name: 'of directories the records tell what may be shared',
    file: 'src/pool/space/space-observer.ts',
    killer: 'test/pool/directory-space.test.ts',
    text: '    if (this.#lineage.isAlone(relative)) return 0n;\n',
    replacement: '    if (this.#lineage.isAlone(relative)) return allocatedBytes;\n',
  },
  {
    name: 'a volume in use is counted again when its use ends',
    file: 'src/pool/space/space-observer.ts',
    killer: 'test/pool/directory-space.test.ts',
    text: '      this.#sources.source.outdate?.(this.#sources.source.dataOfVolume(id));\n',
    replacement: '',
  },
  {
    name: 'a volume that waits for its turn is not called silent',
    file: 'src/pool/condition.ts',
    killer: 'src/pool/condition.test.ts',
    text: 'Array.from({ length: asksAtOnce }, worker)',
    replacement: 'Array.from({ length: volumes.length }, worker)',
  },
  {
    name: 'a move of a directory that did not become durable is taken back',
    file: 'src/pool/kinds/directory/adoption.ts',
    killer: 'test/pool/release-trouble.test.ts',
    text: '      await move(queue, moved, back).catch(() => undefined);\n',
    replacement: '',
  },
  {
    name: 'what comes back from the trash may share blocks',
    ...observer,
    text: "    if (this.#sharingOf(record) !== 'nothing') return this.#readMap(data, relativeOf(record), false);\n",
    replacement: '',
    only: comesBack,
  },
  {
    name: 'a volume that is about to be written to is looked at again',
    ...ledger,
    text: '    this.#observer.volumes.use(id);\n',
    replacement: '',
    only: second,
  },
  {
    name: 'a source that is about to share its blocks owns nothing',
    ...holds,
    text: 'const holds = [space, ...sourceIds.map((id) => this.#volumes.pin(id))];',
    replacement: 'const holds = [space, ...sourceIds.slice(0, 0).map((id) => this.#volumes.pin(id))];',
    only: second,
  },
  {
    name: 'space that is held is let go',
    ...holds,
    text: '        for (const each of holds) each[Symbol.dispose]();\n',
    replacement: '',
    killer: 'test/contract/image.test.ts',
    only: refused,
  },
  {
    name: 'what an operation has taken does not count twice',
    ...holds,
    text: '    await Promise.all(Array.from(this.#taking.keys(), (note) => note()));\n',
    replacement: '',
    only: 'under way has taken',
  },
  {
    name: 'a disk that is nearly full promises nothing',
    ...ledger,
    text: 'return isClosed ? { ...capacity, availableBytes: 0n, thickAvailableBytes: 0n } : capacity;',
    replacement: 'return isClosed ? capacity : capacity;',
    only: 'its own volumes have filled',
  },
  {
    name: 'what is unlinked is waited for before space is refused',
    ...ledger,
    text: '    await trash.drained();\n    await this',
    replacement: '    await this',
    only: 'being unlinked is waited for',
  },
  {
    name: 'what is unlinked is free before space is refused',
    ...ledger,
    text: '    await this.#observer.settle();\n    for (let',
    replacement: '    for (let',
    only: 'being unlinked is waited for',
  },
  {
    name: 'what can be written is asked for, too',
    ...ledger,
    text: 'const unwritable = takenBytes > 0n ? takenBytes - writableBytes(use) : 0n;',
    replacement: 'const unwritable = 0n;',
    only: 'at the cost of what lies in the trash',
  },
  {
    name: 'a thin pool whose metadata is nearly full promises nothing',
    ...thin,
    text: "if (isLow(metadata, alarmMetadataAtPercent)) return 'metadata';",
    replacement: '',
  },
  {
    name: 'a thin pool that needs a check is not made larger',
    ...thin,
    text: 'if (isBroken(status)) return { moreDataBytes',
    replacement: 'if (status === undefined) return { moreDataBytes',
  },
  {
    name: 'nothing new is made in a volume group whose metadata is nearly full',
    file: 'src/pool/kinds/lvm/metadata.ts',
    killer: 'src/pool/kinds/lvm/metadata.test.ts',
    text: 'return freeBytes * 16n < totalBytes;',
    replacement: 'return freeBytes * 16n < 0n * totalBytes;',
  },
];
