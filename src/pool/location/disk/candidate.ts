import { setTimeout as delay } from 'node:timers/promises';
import { type Disk, listDisks, namesakesOf } from '../../../kernel/block/disks.ts';
import type { Descriptor } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { findHolders } from '../../../kernel/process/holders.ts';
import { seesAllProcesses } from '../../../kernel/process/process.ts';
import { readContentOf, readUsers, usersOf } from './disk-survey.ts';
import type { FoundDisk } from './found-disk.ts';
import type { DiskFacts } from './free-disk.ts';

/** All that speaks against a disk beside the content of its ends. @param device undefined: its content is our own */
export async function factsOf(queue: DiskQueue, found: FoundDisk, device: Descriptor | undefined): Promise<DiskFacts> {
  const { disk: whole, part } = found.place;
  const disk: Disk =
    part === undefined
      ? { ...whole, identity: found.name }
      : {
          ...{ ...whole, ...part, devicePath: found.devicePath, identity: found.name, partitions: [] },
          holders: [...whole.holders, ...part.holders],
        };
  const namesakes = namesakesOf(whole, await listDisks(queue));
  const users = await readUsers(queue);
  const byWhole = part === undefined ? [] : (users.loops.get(whole.devicePath) ?? []);
  const used = usersOf(disk, users);
  const own = { found: { kind: 'blank' }, isZeroAtBothEnds: true } as const;
  return {
    disk,
    owners: [],
    ...{ ...used, holders: [...used.holders, ...byWhole] },
    // It is ours alone where this is asked.
    isHeld: false,
    namesakes,
    content: device === undefined ? own : await device.during((path) => readContentOf(queue, path)),
  };
}

/** The reason why it is not known whether programs have a disk open; undefined: it is known. */
export async function whyUnseen(queue: DiskQueue): Promise<string | undefined> {
  if (await seesAllProcesses(queue)) return undefined;
  return 'whether a program has it open cannot be seen without the processes of the node (hostPID: true)';
}

/** More than a busy node needs to look through its processes. */
const holdersTimeoutMs = 30_000;

/** udev, `holdfast disks` and other drivers open a disk for a moment to read its content. */
const pausesMs = [100, 300, 1000];

/**
 * Programs that have a disk open, and do not close it within a moment: a virtual machine that was given a blank disk need
 * not have it exclusively.
 */
export async function whoHasItOpen(found: FoundDisk): Promise<string[]> {
  let holders = await holdersOf(found);
  for (const pauseMs of pausesMs) {
    if (holders.length === 0) break;
    await delay(pauseMs);
    holders = await holdersOf(found);
  }
  return holders;
}

async function holdersOf({ device, devicePath, place }: FoundDisk): Promise<string[]> {
  const devices =
    place.part === undefined
      ? place.disk.partitions.map(({ device: each, name }) => ({ device: each, devicePath: `/dev/${name}` }))
      : [];
  const { holders, isComplete } = await findHolders(
    { devices: [{ device, devicePath }, ...devices] },
    'all',
    holdersTimeoutMs,
  );
  if (!isComplete) return ['the node is too busy to tell which programs have it open'];
  return holders.flatMap((holder) => {
    if (holder.kind !== 'process' || holder.pid === process.pid) return [];
    return [`process ${holder.pid} (${holder.command}) has it open`];
  });
}
