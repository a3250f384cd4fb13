import type { Mutant } from '../mutant.ts';

const age = { file: 'src/pool/catalog/pool-age.ts', killer: 'src/pool/catalog/pool-age.test.ts' } as const;

const deletion = { file: 'src/pool/catalog/deletion.ts', killer: 'test/contract/image.test.ts' } as const;
const trash = { file: 'src/pool/catalog/trash.ts', killer: 'test/contract/image.test.ts' } as const;
const unsettled = { file: 'src/pool/catalog/unsettled.ts', killer: 'test/pool/failed-sync.test.ts' } as const;
const image = { file: 'src/pool/kinds/image/image-file.ts', killer: 'test/pool/short-image.test.ts' } as const;
const removal = { file: 'src/pool/records/file-removal.ts', killer: 'test/contract/image.test.ts' } as const;
const creation = { file: 'src/pool/catalog/creation.ts', killer: 'test/pool/short-image.test.ts' } as const;
const volumes = { file: 'src/pool/catalog/volumes.ts', killer: 'test/pool/short-image.test.ts' } as const;
const repair = { file: 'src/pool/catalog/repair.ts', killer: 'test/grpc/repair.test.ts' } as const;

const wipe = { file: 'src/pool/wipe/wipe.ts', killer: 'test/pool/wipe.test.ts' } as const;

/** What is deleted waits for its time, and comes back whole. */
export const removalMutants: readonly Mutant[] = [
  {
    name: 'a wipe goes on where its last piece ended',
    ...wipe,
    text: 'offsetBytes: range.offsetBytes + doneBytes, lengthBytes',
    replacement: 'offsetBytes: doneBytes, lengthBytes',
  },
  {
    name: 'what a disk refuses for another reason than that it cannot is told',
    ...wipe,
    text: 'if (left.length === 1 || !isUnable(error)) throw error;',
    replacement: 'if (left.length === 1) throw error;',
    only: 'is told',
  },
  {
    name: 'a pool that is closed ends what it destroys slowly',
    ...trash,
    text: `    this.#closing.abort();
    await Promise.all(this.#slow);`,
    replacement: '',
    killer: 'test/pool/wipe.test.ts',
    only: 'nobody waits for it',
  },
  {
    name: 'a clock that is ahead ends no time in the trash',
    ...age,
    text: 'Math.min(longestPauseMs, Math.max(0, nowMs - noted.atMs))',
    replacement: 'Math.max(0, nowMs - noted.atMs)',
  },
  {
    name: 'a clock that went back makes no pool younger',
    ...age,
    text: 'Math.max(0, nowMs - noted.atMs)',
    replacement: '(nowMs - noted.atMs)',
  },
  {
    name: 'a pool is as old as what lies in it',
    ...age,
    text: 'return Math.max(leastMs, noted.ageMs + pauseMs);',
    replacement: 'return noted.ageMs + pauseMs;',
  },
  {
    name: 'half a note of the age of a pool is none',
    ...age,
    text: '/^ *(\\d{1,15}) (\\S{24})\\n$/',
    replacement: '/^ *(\\d{1,15}) (\\S+)/',
  },
  {
    name: 'what is to be brought back is marked before it goes',
    ...removal,
    text: 'deletion !== undefined && (await this.#markDeleted(id, deletion));',
    replacement: 'deletion !== undefined;',
    only: 'backing file.*undelete',
  },
  {
    name: 'the mark of an earlier deletion goes',
    ...removal,
    text: '      if (deletion === undefined) await queue.run(() => unlink(mark)).catch(ignoreMissing);\n',
    replacement: '',
    killer: 'test/pool/trash-purge.test.ts',
    only: 'has no mark of an earlier deletion',
  },
  {
    name: 'what exists is not brought back over itself',
    ...deletion,
    text: '    if (index.get(id) !== undefined) throw new AlreadyExists(',
    replacement: '    if (index.get(id) === null) throw new AlreadyExists(',
    only: 'backing file.*a name can be used again',
  },
  {
    name: 'what cannot be brought back stays in the trash',
    ...deletion,
    text: '      trash.keep(entry);\n      await unsettled.recheck([id]);\n',
    replacement: '',
    only: 'backing file.*is restored asks for its space',
  },
  {
    name: 'a restore that failed half way is looked up',
    ...deletion,
    text: '      await unsettled.recheck([id]);\n',
    replacement: '',
    killer: 'test/pool/failed-sync.test.ts',
  },
  {
    name: 'a deletion that failed half way is looked up',
    file: 'src/pool/catalog/unsettled.ts',
    text: '      return await work();\n    } catch (error) {\n      await this.recheck(ids);\n',
    replacement: '      return await work();\n    } catch (error) {\n',
    killer: 'test/pool/failed-sync.test.ts',
  },
  {
    name: 'a volume with a life of its own is not removed at the start',
    ...deletion,
    text: 'if (ephemeral === undefined || (await this.#isMounted(id, table))) return [];',
    replacement: 'if (await this.#isMounted(id, table)) return [];',
    only: 'backing file.*also after a restart',
  },
  {
    name: 'a full disk keeps nobody from deleting',
    ...removal,
    text: 'reserve.withReserve(queue, () => this.mark(volume, deletion))',
    replacement: 'this.mark(volume, deletion)',
    killer: 'test/pool/full-disk.test.ts',
    only: 'somebody else has filled to the last block',
  },
  {
    name: 'what is kept has its mark off before anything of it goes',
    ...trash,
    text: `        await this.#unmark(entry);
        await this.#shred(entry);`,
    replacement: `        this.forget(entry);
        await this.#shred(entry);`,
    killer: 'test/pool/trash-purge.test.ts',
    only: 'cannot note that it begins',
  },
  {
    name: 'what goes for its space has its mark off before anything of it goes',
    ...trash,
    text: `      await this.#unmark(entry);
      this.#enqueueDestruction(entry.ref`,
    replacement: `      this.forget(entry);
      this.#enqueueDestruction(entry.ref`,
    killer: 'test/pool/trash-purge.test.ts',
    only: 'cannot note that it begins',
  },
  {
    name: 'what could not be unmarked is still kept',
    ...trash,
    text: '        this.keep(entry);\n      }\n      throw error;',
    replacement: '      }\n      throw error;',
    killer: 'test/pool/trash-purge.test.ts',
    only: 'cannot note that it begins',
  },
  {
    name: 'what a volume was before its repair never goes for its space',
    ...trash,
    text: 'return this.entries().filter((entry) => !isOriginal(entry));',
    replacement: 'return this.entries().filter((entry) => entry !== undefined || isOriginal(entry));',
    killer: 'test/pool/trash-purge.test.ts',
    only: 'is never what a volume was before its repair',
  },
  {
    name: 'what was deleted without its mark is not kept',
    ...trash,
    text: 'const left = [...unkept, ...(await',
    replacement: 'const left = [...(await',
    killer: 'test/contract/image-home.test.ts',
    only: 'what a killed driver left in tmp',
  },
  {
    name: 'what is half made goes at the start',
    ...trash,
    text: 'const left = [...unkept, ...(await backend.provisioner.leftDrafts())];',
    replacement: 'const left = [...unkept];',
    killer: 'test/contract/image-home.test.ts',
    only: 'what a killed driver left in tmp',
  },
  {
    name: 'a copy that somebody may go on with stays',
    ...removal,
    text: '      if (!(await isForgotten(queue, path))) continue;\n',
    replacement: '',
    killer: 'test/contract/image-home.test.ts',
    only: 'what a killed driver left in tmp',
  },
  {
    name: 'what has had its time goes',
    ...trash,
    text: 'timeLeftMs(kept, this.#age.ms) <= 0',
    replacement: 'timeLeftMs(kept, this.#age.ms) <= -Infinity',
    only: 'backing file.*what has had its time',
  },
  {
    name: 'what still has time stays',
    ...trash,
    text: 'timeLeftMs(kept, this.#age.ms) <= 0',
    replacement: 'timeLeftMs(kept, this.#age.ms) <= Infinity',
    only: 'backing file.*a deleted volume comes back',
  },
  {
    name: 'the age of a pool is noted when it is closed',
    ...trash,
    text: '    if (this.#kept.size > 0) await this.#noteAge();\n',
    replacement: '',
    killer: 'test/pool/trash-purge.test.ts',
    only: 'is counted from what the pool has noted',
  },
  {
    name: 'a pool is as old as its trash says',
    ...trash,
    text: 'Math.max(0, ...kept.map(({ poolAgeMs = 0 }) => poolAgeMs))',
    replacement: 'Math.max(0, ...kept.map(({ poolAgeMs = 0 }) => 0 * poolAgeMs))',
    killer: 'test/pool/trash-purge.test.ts',
    only: 'is counted from what the pool has noted',
  },
  {
    name: 'the time in the trash is told by the age of the pool',
    file: 'src/pool/catalog/trash-entry.ts',
    text: 'return (poolAgeMs ?? nowAgeMs) + Date.parse(purgeAt) - Date.parse(deletedAt) - nowAgeMs;',
    replacement: 'return Date.parse(purgeAt) - Date.now() + 0 * ((poolAgeMs ?? nowAgeMs) + Date.parse(deletedAt));',
    killer: 'test/pool/trash-purge.test.ts',
  },
  {
    name: 'the last one deleted is the first that comes back',
    file: 'src/pool/catalog/trash-entry.ts',
    text: 'return (b.poolAgeMs ?? 0) - (a.poolAgeMs ?? 0) || (a.deletedAt > b.deletedAt ? -1 : 1);',
    replacement: 'return (a.poolAgeMs ?? 0) - (b.poolAgeMs ?? 0) || (a.deletedAt > b.deletedAt ? 1 : -1);',
    killer: 'test/contract/image.test.ts',
    only: 'backing file.*a name can be used again',
  },
  {
    name: 'what cannot be read in the trash is left for a person',
    file: 'src/pool/records/trash-files.ts',
    text: '      contents.unreadable.push({ ref: path, error });\n',
    replacement: '      contents.unkept.push(path);\n',
    killer: 'test/pool/trash-purge.test.ts',
    only: 'whose mark cannot be read',
  },
  {
    name: 'of what is not settled nothing is said',
    ...unsettled,
    text: 'for (const id of ids) if (this.#ids.has(id)) await this.#settleOnce(id);',
    replacement: 'for (const id of ids) if (this.#ids.has(id)) await Promise.resolve();',
  },
  {
    name: 'memory is made to agree with the disk about a volume',
    ...unsettled,
    text: '      index.restate(volumeId, await backend.records.readVolume(volumeId));\n',
    replacement: '',
  },
  {
    name: 'what a retry is told of a volume is durable',
    ...unsettled,
    file: 'src/pool/records/file-store.ts',
    text: '      await this.#sync(layout.volume(volumeId));\n',
    replacement: '',
    only: 'nobody is told of what is not durable',
  },
  {
    name: 'memory is made to agree with the disk about a group',
    ...unsettled,
    text: '      snapshotIndex.groups.restate(groupId, await backend.records.readGroup(groupId));\n',
    replacement: '',
  },
  {
    name: 'memory is made to agree with the trash',
    ...unsettled,
    text: '    const unkept = await trash.reread(id);\n',
    replacement: '    const unkept: string[] = [];\n',
  },
  {
    name: 'what nobody keeps is unlinked after a failure, too',
    ...unsettled,
    text: '    for (const ref of unkept) trash.destroy(ref);\n',
    replacement: '',
  },
  {
    name: 'not every missing file is one that was removed by hand',
    file: 'src/pool/records/gone.ts',
    text: ' || (await isThere(queue, path))) throw error;',
    replacement: ') throw error;',
    killer: 'test/pool/full-disk.test.ts',
    only: 'forgets no volume and no snapshot',
  },
  {
    name: 'a short image is not used',
    ...image,
    text: '  if (presentBytes >= sizeBytes) return file;\n',
    replacement: '  if (presentBytes >= 0n * sizeBytes) return file;\n',
  },
  {
    name: 'a missing image is told as damage',
    ...image,
    text: "    if (!isErrno(error, 'ENOENT')) throw error;\n",
    replacement: '    if (path) throw error;\n',
  },
  {
    name: 'no snapshot is cut of a short image',
    file: 'src/pool/catalog/snapshots.ts',
    text: "    await backend.provisioner.verify({ kind: 'volume', record: source });\n",
    replacement: '',
    killer: 'test/pool/short-image.test.ts',
    only: 'nothing is made from it',
  },
  {
    name: 'a short image does not grow',
    ...volumes,
    text: `    await backend.provisioner.verify({ kind: 'volume', record });
    if (sizeBytes`,
    replacement: '    if (sizeBytes',
  },
  {
    name: 'a short image is not made thick or thin',
    ...volumes,
    text: "    if (changes.provisioning !== undefined) await backend.provisioner.verify({ kind: 'volume', record });\n",
    replacement: '',
  },
  {
    name: 'no clone is made of a short image',
    ...creation,
    text: '    await backend.provisioner.verify(from);\n',
    replacement: "    if (source.type !== 'volume') await backend.provisioner.verify(from);\n",
  },
  {
    name: 'no volume is made of a short snapshot',
    ...creation,
    text: '    await backend.provisioner.verify(from);\n',
    replacement: "    if (source.type !== 'snapshot') await backend.provisioner.verify(from);\n",
  },
  {
    name: 'a volume in use is not repaired',
    ...repair,
    text: '    await refuseInUse(backend.attacher, id);\n',
    replacement: '',
    killer: 'test/contract/image.test.ts',
    only: 'backing file.*neither removed nor repaired',
  },
  {
    name: 'a volume is repaired only on a clone',
    ...repair,
    text: "if (backend.traits.snapshots !== 'reflink') {",
    replacement: "if (backend.traits.snapshots === 'none') {",
    only: 'is refused, with the command',
  },
  {
    name: 'the original of a repair is kept',
    ...repair,
    text: '    trash.keep(entry);\n',
    replacement: '',
    only: 'ext4 that has recorded errors',
  },
  {
    name: 'the original of a repair is kept for two weeks',
    ...repair,
    text: 'Math.max(keptSeconds, damaged.undeleteSeconds ?? undeleteSeconds)',
    replacement: 'Math.max(0 * keptSeconds, damaged.undeleteSeconds ?? undeleteSeconds)',
    killer: 'test/pool/trash-purge.test.ts',
    only: 'for space passes over',
  },
  {
    name: 'a repair is told in the record of its volume',
    ...repair,
    text: '{ ...record, repair: { at: original.deletedAt, originalId: original.record.id } }',
    replacement: '{ ...record }',
    only: 'ext4 that has recorded errors',
  },
  {
    name: 'a repair that was cut short is looked up',
    ...repair,
    text: `await unsettled.change([record.id], () =>
      step('repair/keep', () => draft.keepOriginal(record, deletion)),
    );`,
    replacement: "await step('repair/keep', () => draft.keepOriginal(record, deletion));",
    killer: 'test/pool/failed-sync.test.ts',
  },
];
