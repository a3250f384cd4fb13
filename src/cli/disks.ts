import { realpath } from 'node:fs/promises';
import type { Config } from '../config/config.ts';
import { isHeldExclusively } from '../kernel/block/block.ts';
import { type Disk, linksToDisks, listDisks, namesakesOf } from '../kernel/block/disks.ts';
import { DiskQueue } from '../kernel/call/disk-queue.ts';
import { explain } from '../kernel/call/explain.ts';
import { whileAnswering } from '../kernel/call/while-answering.ts';
import { claimsOf, expandPools, type PoolConfig, sectionsWanting, takesByMatch } from '../pool/kinds.ts';
import { readContentOf, readUsers, type Users, usersOf } from '../pool/location/disk/disk-survey.ts';
import { type DiskFacts, whyNotFree } from '../pool/location/disk/free-disk.ts';
import { Unavailable } from '../volume/errors.ts';
import { withTimeout } from '../volume/flow/with-timeout.ts';
import { type Common, hearLooker } from './look/look.ts';
import { tellAll } from './look/looker.ts';
import { DiskSilent } from './look/silence.ts';
import { exitCodes, type Output, toJson } from './output/output.ts';
import { printTable } from './output/table.ts';
import { type DiskItem, diskColumns, diskRow } from './output/tables/disks.ts';

/** Messages of the process that looks at disks: first the disks, then the details of each. */
type DisksMessage =
  /** @param onOneDisk sections that take one disk, and none of two */
  | { readonly kind: 'list'; readonly names: readonly string[]; readonly onOneDisk: readonly string[] }
  | { readonly kind: 'disk'; readonly item: DiskItem }
  | Common;

/** A disk that has not answered for 10 s is not waited for. */
const silentAfterMs = 10_000;
/** On a busy machine with thousands of processes it takes seconds. */
const listsTimeoutMs = 60_000;
/** More than a node has, as a rule; the others wait. */
const disksAtOnce = 32;

/** `holdfast disks`: every disk of this node, and why it is, or is not, free to be given to a pool. */
export async function disksCommand(output: Output, options: { json: boolean }): Promise<number> {
  const { disks, missing, onOneDisk } = await seenDisks();
  if (options.json) output.line(toJson<'disks'>({ disks }));
  else printTable(output, diskColumns, { rows: disks.map((disk) => diskRow(disk, contestedAmong(disks, onOneDisk))) });
  for (const name of missing) output.problem('UNAVAILABLE', `disk ${name} cannot be looked at: it does not answer`);
  return missing.length > 0 ? exitCodes.failed : exitCodes.ok;
}

interface SeenDisks {
  readonly disks: DiskItem[];
  readonly missing: string[];
  readonly onOneDisk: readonly string[];
}

/** Sections for one disk that several free disks match. */
function contestedAmong(disks: readonly DiskItem[], onOneDisk: readonly string[]): string[] {
  const isFor = (name: string) => (disk: DiskItem) => disk.free && disk.sections?.includes(name) === true;
  return onOneDisk.filter((name) => disks.filter(isFor(name)).length > 1);
}

/** The disks of this node, and the names of those that do not answer. */
export async function seenDisks(): Promise<SeenDisks> {
  const items = new Map<string, DiskItem>();
  let names: readonly string[] | undefined;
  let onOneDisk: readonly string[] = [];
  await hearLooker<DisksMessage>({
    what: 'the disks',
    args: ['look-at-disks'],
    threads: disksAtOnce,
    hear: (message) => {
      if (message.kind === 'list') ({ names, onOneDisk } = message);
      if (message.kind === 'disk') items.set(message.item.name, message.item);
      return items.size === names?.length;
    },
  });
  if (names === undefined) throw new Unavailable('the disks cannot be looked at: the process for it hangs.');
  const disks = names.flatMap((name) => items.get(name) ?? []);
  return { disks, missing: names.filter((name) => !items.has(name)), onOneDisk };
}

/** The process that looks at the disks for another one: a disk that hangs would keep that from ending. */
export function lookAtDisks(config: Config): Promise<never> {
  return tellAll<DisksMessage>(async (tell) => {
    const lists = await withTimeout(listsTimeoutMs, readLists(config));
    if (lists === 'late') {
      throw new Unavailable(
        'the mounts of this node cannot be read: something that is being mounted or unmounted hangs.',
      );
    }
    const { disks, expanded, links, owners, users } = lists;
    const onOneDisk = expanded.pools.filter(takesByMatch).map(({ name }) => name);
    await tell({ kind: 'list', names: disks.map(({ name }) => name), onOneDisk });
    const isByMatch = config.pools.some(takesByMatch);
    const turns = new DiskQueue('disks at once', disksAtOnce);
    await Promise.all(
      disks.map((disk) =>
        turns.run(async () => {
          const facts = await factsOf(disk, { disks, users, owners: owners.get(disk.devicePath) ?? [] });
          const linked = links.get(disk.name) ?? [];
          const item = {
            ...itemOf(facts, linked),
            ...(isByMatch && { sections: sectionsWanting(expanded, disk, linked) }),
          };
          await tell({ kind: 'disk', item });
        }),
      ),
    );
  });
}

/** The knowledge of the kernel and the configuration, without a request to a disk. */
async function readLists(config: Config) {
  const queue = new DiskQueue('lists', 4);
  const expanded = await expandPools(config.pools, config.dataDirectory);
  return {
    expanded,
    disks: await listDisks(queue),
    links: await linksToDisks(queue),
    owners: await ownersOf(config, expanded.pools, queue),
    users: await readUsers(queue),
  };
}

interface Around {
  readonly disks: readonly Disk[];
  readonly users: Users;
  readonly owners: readonly string[];
}

async function factsOf(disk: Disk, { disks, owners, users }: Around): Promise<DiskFacts> {
  const known = {
    disk,
    owners,
    ...usersOf(disk, users),
    namesakes: namesakesOf(disk, disks),
  };
  if (disk.sizeBytes === 0n) return { ...known, isHeld: false, content: undefined };
  const silence = new DiskSilent(`it has not answered for ${silentAfterMs / 1000} s`);
  try {
    return await whileAnswering(new DiskQueue(disk.name, 1), { limitMs: silentAfterMs, silence }, async (queue) => {
      // To look, it is taken exclusively for a moment: only where no user of it is seen.
      const isFreeSoFar = known.mountedAt.length + known.holders.length + known.swaps.length + owners.length === 0;
      const isHeld = isFreeSoFar && (await isHeldExclusively(queue, disk.devicePath));
      return { ...known, isHeld, content: await readContentOf(queue, disk.devicePath) };
    });
  } catch (error) {
    return { ...known, isHeld: false, content: explain(error) };
  }
}

/** The pools that the configuration gives disks to, by the kernel's own paths. */
async function ownersOf(
  config: Config,
  pools: readonly PoolConfig[],
  queue: DiskQueue,
): Promise<ReadonlyMap<string, readonly string[]>> {
  const owners = new Map<string, string[]>();
  for (const pool of pools) {
    for (const { path, type } of claimsOf(pool, config.dataDirectory)) {
      if (type !== 'device') continue;
      const real = await queue.run(() => realpath(path)).catch(() => path);
      owners.set(real, [...(owners.get(real) ?? []), `pool ${pool.name}`]);
    }
  }
  return owners;
}

function itemOf(facts: DiskFacts, links: readonly string[]): DiskItem {
  const { bus, devicePath, identity, isRemovable, isRotational, model, name, serial, sizeBytes } = facts.disk;
  const reasons = whyNotFree(facts);
  return {
    ...{ name, path: devicePath, links, sizeBytes, bus, rotational: isRotational, removable: isRemovable },
    ...(model !== undefined && { model }),
    ...(serial !== undefined && { serial }),
    ...(identity !== undefined && { identity }),
    free: reasons.length === 0,
    reasons,
  };
}
