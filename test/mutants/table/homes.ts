import type { Mutant } from '../mutant.ts';

const format = { file: 'src/pool/location/format.ts', killer: 'test/pool/format.test.ts' } as const;
const trouble = { file: 'src/pool/location/format.ts', killer: 'test/pool/home-trouble.test.ts' } as const;
const backing = { file: 'src/pool/location/backing-file.ts', killer: 'test/pool/first-start.test.ts' } as const;
const lock = { file: 'src/pool/location/lock.ts', killer: 'test/pool/first-start.test.ts' } as const;
const mount = { file: 'src/pool/location/mount.ts', killer: 'test/contract/image-home.test.ts' } as const;
const location = { file: 'src/pool/location/location.ts', killer: 'test/contract/image-home.test.ts' } as const;

const anotherDisk = 'another disk under the same name';
const cutShort = 'what cannot be shown to be left of it';
const unfit = 'its disk is too small';

/** Where a pool lives: whose it is, and that nothing of others is written over. */
export const locationMutants: readonly Mutant[] = [
  {
    name: 'a marker of a format is good for its own disk only',
    ...format,
    text: 'begun !== undefined && isSameDisk(begun.disk, disk) ? begun.uuid : undefined',
    replacement: 'begun !== undefined && disk ? begun.uuid : undefined',
    only: cutShort,
  },
  {
    name: 'the marker goes when the format fails',
    ...format,
    text: '    await takeBack(queue, devicePath, uuid, marker).catch(() => undefined);\n',
    replacement: '',
    only: anotherDisk,
  },
  {
    name: 'what a format that failed has written is taken back',
    ...format,
    text: '      await file.write(Buffer.alloc(beginning.length), 0, beginning.length, 0);\n',
    replacement: '',
    only: 'what it has written goes',
  },
  {
    name: 'only what the format itself has written is taken back',
    ...format,
    text: '  if (!isOwnFormat(await probeContent(queue, devicePath), beginning, uuid)) return;\n',
    replacement: '',
    only: 'takes nothing back',
  },
  {
    name: 'a marker that says too little is removed',
    ...format,
    text: '  await new FormatMarker(location.queue, location.markerDirectory, location.poolName).removeVoid();\n',
    replacement: '',
    only: cutShort,
  },
  {
    name: 'a marker beside a pool in use is removed',
    ...format,
    text: "  if (isMarked) await step('open/unmark', () => marker.clear());\n",
    replacement: '',
    only: 'a pool that was used is kept',
  },
  {
    name: 'a marker is there before the format',
    ...format,
    text: "  await step('open/mark', () => marker.set({ disk, uuid }));\n",
    replacement: '',
    only: 'has been marked',
  },
  {
    name: 'the marker goes when the format is done',
    ...format,
    text: "    throw error;\n  }\n  await step('open/unmark', () => marker.clear());\n",
    replacement: '    throw error;\n  }\n',
    only: 'is done again',
  },
  {
    name: 'a filesystem that was used is not formatted',
    ...format,
    text: 'isToBeMade: !(await wasUsed(queue, device, beginning))',
    replacement: 'isToBeMade: (await wasUsed(queue, device, beginning)) !== undefined',
    only: 'if only once',
  },
  {
    name: 'a read-only disk is told before it is formatted',
    ...trouble,
    text: '  refuseReadonly(location, device);\n  let found',
    replacement: '  let found',
    only: unfit,
  },
  {
    name: 'a disk that is too small is told before it is marked',
    ...trouble,
    text: '    refuseSmall(location, device);\n    await refuseInUse',
    replacement: '    await refuseInUse',
    only: unfit,
  },
  {
    name: 'a disk that somebody has is told before it is marked',
    ...trouble,
    text: '    await refuseInUse(location);\n    // Whoever',
    replacement: '    // Whoever',
    only: unfit,
  },
  {
    name: 'a pool on a disk has the sectors of the disk',
    ...format,
    text: 'blockSizeBytes: sectorBytes, extraArguments',
    replacement: 'blockSizeBytes: 0 * sectorBytes + 512, extraArguments',
    only: 'a blank one becomes a pool',
  },
  {
    name: 'the device of a volume with a filesystem has large blocks',
    file: 'src/pool/kinds/image/block-size.ts',
    text: 'mkfsArguments) ? 512 : 4096',
    replacement: 'mkfsArguments) ? 512 : 512',
    killer: 'test/pool/no-room.test.ts',
    only: 'ext4: the device',
  },
  {
    name: 'the block size of a pool is tried on blocks that are shared',
    file: 'src/pool/kinds/image/block-size.ts',
    text: '    await reflinkIfPossible(queue, path, clone);\n',
    replacement: '',
    killer: 'test/pool/no-room.test.ts',
    only: 'into the cache',
  },
  {
    name: 'an ext4 has blocks as large as those of its device',
    file: 'src/command/mkfs.ts',
    text: 'blockSizeBytes <= 1024',
    replacement: 'blockSizeBytes <= 4096',
    killer: 'test/pool/format.test.ts',
    only: 'a blank one becomes a pool',
  },
  {
    name: 'a marker of a newer format says too little',
    file: 'src/pool/location/format-marker.ts',
    text: "  return 'data' in parsed ? parsed.data : undefined;\n",
    replacement: "  return 'data' in parsed ? parsed.data : JSON.parse(text);\n",
    killer: 'test/pool/format.test.ts',
    only: cutShort,
  },
  {
    name: 'a backing file gets its name by link, which replaces nothing',
    ...backing,
    text: 'await queue.run(() => link(draft, path));',
    replacement: "await queue.run(async () => (await import('node:fs/promises')).rename(draft, path));",
  },
  {
    name: 'a backing file is locked before others see it',
    ...backing,
    text: '      return lock;\n    } catch (error) {\n      await lock',
    replacement:
      '      await lock[Symbol.asyncDispose]();\n      return lock;\n    } catch (error) {\n      await lock',
  },
  {
    name: 'a backing file that is there is not made',
    ...backing,
    text: '  if (await isThere(queue, path)) return undefined;\n  if',
    replacement: '  if',
    killer: 'test/contract/image-home.test.ts',
    only: 'a larger size in the configuration',
  },
  {
    name: 'a backing file that is too small for XFS is told',
    ...backing,
    text: '  if (sizeBytes < minimumLocationBytes) throw tooSmall(poolName, path, sizeBytes);\n',
    replacement: '',
    killer: 'test/pool/home-trouble.test.ts',
  },
  {
    name: 'a draft of a backing file goes',
    ...backing,
    text: '    await queue.run(() => unlink(draft)).catch(() => undefined);\n',
    replacement: '',
    killer: 'test/pool/format.test.ts',
    only: 'leaves no draft',
  },
  {
    name: 'drafts that others have left go',
    file: 'src/pool/location/location.ts',
    text: '    await removeDrafts(queue, path);\n',
    replacement: '',
    killer: 'test/pool/format.test.ts',
    only: 'what others have left',
  },
  {
    name: 'a driver that is stopping takes no lock',
    ...lock,
    text: '    if (stopping?.aborted) throw',
    replacement: '    if (stopping === null) throw',
    killer: 'test/grpc/stop.test.ts',
    only: 'kubelet never hears',
  },
  {
    name: 'who has the lock is told',
    ...lock,
    text: 'const holders = await lockHolders(queue, path);',
    replacement: 'const holders = (await lockHolders(queue, path)).slice(0, 0);',
    killer: 'test/contract/image-home.test.ts',
    only: 'the second driver on a pool',
  },
  {
    name: "what somebody else mounted in the pool's place is not used",
    ...mount,
    text: '    if (await isForeign(location, status)) throw foreignMount(location);\n',
    replacement: '',
    only: 'what somebody else mounted',
  },
  {
    name: 'a pool that a killed driver left frozen is thawed',
    ...mount,
    text: "    await step('open/thaw', () => thaw(queue, root));\n",
    replacement: '',
    only: 'left frozen when it was killed',
  },
  {
    name: 'a backing file is never attached twice',
    ...mount,
    text: '  if (!(await isOpenElsewhere(queue, source))) return undefined;\n',
    replacement: '  if (source) return undefined;\n',
    only: 'is not attached twice',
  },
  {
    name: 'a dead filesystem is not used',
    ...mount,
    text: '    await writeHealthFile(queue, root);\n',
    replacement: '',
    killer: 'test/grpc/quarantine.test.ts',
    only: 'mounted anew by itself',
  },
  {
    name: 'a directory whose parent is missing is not made',
    ...location,
    text: 'await queue.run(() => mkdir(path, { mode: 0o700 }));\n  } catch (error) {\n    // Not',
    replacement:
      'await queue.run(() => mkdir(path, { mode: 0o700, recursive: true }));\n  } catch (error) {\n    // Not',
    only: 'a missing parent',
  },
  {
    name: 'a directory of a pool is locked',
    ...location,
    text: 'const lock = await takeLock(options, path);\n  const unlock = () => lock[Symbol.asyncDispose]();\n  const abandon',
    replacement:
      'const lock = { async [Symbol.asyncDispose]() {} };\n  const unlock = () => lock[Symbol.asyncDispose]();\n  const abandon',
    only: 'the second driver on a pool',
  },
  {
    name: 'a disk of a pool is locked',
    ...location,
    text: 'const lock = await takeLock(options, devicePath);',
    replacement: 'const lock = { async [Symbol.asyncDispose]() {} };',
    only: 'the second driver on a pool',
  },
  {
    name: 'a location that is no disk is told',
    ...location,
    text: 'if (device === undefined || !status?.isBlockDevice()) throw',
    replacement: 'if (device === undefined) throw',
    killer: 'test/messages/troubleshooting.test.ts',
  },
  {
    name: 'a pool of a newer format is left alone',
    file: 'src/pool/records/pool-file.ts',
    text: '  format: z.literal(1),\n  id: z.uuid(),',
    replacement: '  format: z.int(),\n  id: z.uuid(),',
    killer: 'test/contract/image-home.test.ts',
    only: 'a newer format',
  },
  {
    name: 'which pool this node had is remembered',
    file: 'src/pool/records/pool-file.ts',
    text: '  if ((await readMarker(queue, markerPath)) === undefined) await remember(options, markerPath, poolFile.id);\n',
    replacement: '',
    killer: 'test/contract/image-home.test.ts',
    only: 'an empty location where there was a pool',
  },
];
