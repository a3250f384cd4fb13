import { withTimeout } from '../../volume/flow/with-timeout.ts';
import { type FoundHolders, type Holder, type NamespaceMember, swapSpace } from '../../volume/holder.ts';
import { type SoughtDevice, stackedDevices } from '../block/stacked.ts';
import { DiskQueue } from '../call/disk-queue.ts';
import { type DeviceNumber, sameDevice } from '../device.ts';
import type { FileStatus } from '../file/path.ts';
import { type DirectoryRoot, findRoot, isAtOrBelow, rootThrough, showsDirectory } from '../mount/directory-root.ts';
import { isNodeOf, type Mount } from '../mount/mount-table.ts';
import { mountsOfDevices, type ShowsDevice } from '../mount/mounts-of-device.ts';
import {
  heldFiles,
  listProcesses,
  mappedFiles,
  mountIdBehind,
  mountNamespaceOf,
  mountTableOf,
  processState,
  shownBy,
  targetOf,
} from './process.ts';
import { swapPaths } from './swaps.ts';

export interface Sought {
  readonly devices: readonly SoughtDevice[];
  /** Directories that are volumes on a filesystem with others: paths without symbolic links. */
  readonly directories?: readonly string[];
  /** Filesystems that are volumes and lie on no device. */
  readonly filesystems?: readonly Pick<Mount, 'fsType' | 'source'>[];
  /** A mount of the volume that cannot be unmounted: only its holders are sought. */
  readonly busyMountId?: bigint | undefined;
}

/**
 * mounts: mounts of the devices and devices built on them, which takes a few milliseconds. all: also the processes, and
 * the files that each has open.
 */
export type SearchScope = 'mounts' | 'all';

/**
 * A separate queue: reading from a process may wait as long as that process does, and must delay only the next search.
 */
const queue = new DiskQueue('holders', 1);
/**
 * For the message of a failed call. On a busy node a search takes seconds, and an error without the holder's name does
 * not help.
 */
const defaultTimeoutMs = 5_000;

/**
 * Finds the users of a volume on this node, as far as this process can see: in a container it needs the host's process
 * namespace. It never reads the volume's own filesystem or disk, which may be dead, and it ends in time. It never
 * throws, as it explains a failure that has happened already.
 */
export async function findHolders(
  sought: Sought,
  scope: SearchScope,
  timeoutMs = defaultTimeoutMs,
): Promise<FoundHolders> {
  const search = new Search(sought);
  const outcome = await withTimeout(
    timeoutMs,
    search.run(scope).catch(() => 'failed' as const),
  );
  search.stop();
  return { holders: search.found(), isComplete: outcome === undefined };
}

/** A holder; `keepsBusyMount`: it uses the very mount that is busy. */
interface Finding {
  readonly holder: Holder;
  readonly keepsBusyMount: boolean;
}

/** A mount namespace, and its processes by the numbers by which /proc shows them. */
interface Namespace {
  readonly isOurs: boolean;
  readonly pids: number[];
}

class Search {
  readonly #sought: Required<Sought>;
  readonly #findings: Finding[] = [];
  /** Ids of mounts of the volume, in any namespace: no two mounts of a node have the same id. */
  readonly #mountIds = new Set<bigint>();
  /** The busy mount, and those of its peer group. */
  readonly #busyIds = new Set<bigint>();
  /** The device of the volume's filesystem in the mount table; for btrfs it is no block device's number. */
  readonly #filesystems: DeviceNumber[] = [];
  #directories: readonly DirectoryRoot[] = [];
  /** Mounts of the sought directories' filesystems, by their ids, in any namespace. */
  readonly #mountsAround = new Map<bigint, Mount>();
  readonly #targets = new Set<string>();
  /** The processes that /proc shows by another thread alone, as the first one has ended: by the number of that thread. */
  readonly #processes = new Map<number, number>();
  #busyMount: Mount | undefined;
  /** For the mounts of the current namespace. */
  #shows: ShowsDevice = () => false;
  #isStopped = false;

  constructor(sought: Sought) {
    this.#sought = { directories: [], filesystems: [], busyMountId: undefined, ...sought };
    if (sought.busyMountId !== undefined) this.#busyIds.add(sought.busyMountId);
  }

  stop(): void {
    this.#isStopped = true;
  }

  found(): Holder[] {
    const isBusy = this.#sought.busyMountId !== undefined;
    return this.#findings.filter((finding) => !isBusy || finding.keepsBusyMount).map(({ holder }) => holder);
  }

  async run(scope: SearchScope): Promise<void> {
    if (this.#sought.directories.length > 0) {
      const table = await mountTableOf(queue, process.pid);
      this.#directories = this.#sought.directories.flatMap((path) => findRoot(table, path) ?? []);
    }
    const namespaces = await this.#namespaces();
    for (const namespace of namespaces) await this.#lookAtMounts(namespace);
    const directories = [...this.#targets, ...this.#sought.directories];
    const stacked = await stackedDevices(queue, this.#sought.devices, directories);
    for (const device of stacked) this.#findings.push({ holder: { kind: 'device', ...device }, keepsBusyMount: true });
    await this.#lookAtSwaps();
    if (scope === 'mounts') return;
    const pids = namespaces.flatMap((namespace) => namespace.pids);
    for (const pid of pids) await this.#lookAtFiles(pid);
    for (const pid of pids) await this.#lookAtMemory(pid);
  }

  /** A file's path is that of the mount through which it was given to swapon(8). */
  async #lookAtSwaps(): Promise<void> {
    const { devices, directories } = this.#sought;
    for (const path of await swapPaths(queue)) {
      const isDevice = devices.some(({ devicePath }) => devicePath === path);
      const places = [...this.#targets, ...directories];
      if (!isDevice && !places.some((place) => isAtOrBelow(path, place))) continue;
      const keepsBusyMount = isDevice || this.#isBelowBusyMount(path);
      this.#findings.push({ holder: { kind: 'device', path, name: swapSpace }, keepsBusyMount });
    }
  }

  /** Our own namespace comes first. */
  async #namespaces(): Promise<Namespace[]> {
    const own = await mountNamespaceOf(queue, 'self');
    const namespaces = new Map<string, Namespace>([[own ?? '', { isOurs: true, pids: [] }]]);
    const pids = await listProcesses(queue);
    const shown = await Promise.all(pids.map((pid) => shownBy(queue, pid)));
    for (const [index, pid] of pids.entries()) {
      const each = shown[index];
      if (each === undefined) continue;
      if (each.thread !== pid) this.#processes.set(each.thread, pid);
      const namespace = namespaces.get(each.namespace) ?? { isOurs: false, pids: [] };
      namespace.pids.push(each.thread);
      namespaces.set(each.namespace, namespace);
    }
    return [...namespaces.values()];
  }

  async #lookAtMounts({ isOurs, pids }: Namespace): Promise<void> {
    const [pid] = pids;
    if (pid === undefined || this.#isStopped) return;
    const table = await mountTableOf(queue, isOurs ? process.pid : pid);
    const devices = this.#sought.devices.map(({ device }) => device);
    this.#shows = await mountsOfDevices(queue, table, { devices, mayAsk: false });
    const mounts = table.filter((mount) => this.#isMountOfVolume(mount) || this.#isNodeOfVolume(mount));
    this.#busyMount ??= table.find(({ id }) => id === this.#sought.busyMountId);
    for (const mount of mounts) this.#remember(mount);
    for (const mount of table) {
      const isAround = this.#directories.some(({ device }) => sameDevice(device, mount.device));
      if (isAround) this.#mountsAround.set(mount.id, mount);
    }
    const own = new Set(mounts.map(({ id }) => id));
    const upon = table.filter(({ id, parentId }) => own.has(parentId) && !own.has(id));
    if (mounts.length === 0) return;
    const namespaceOf = isOurs ? undefined : await this.#memberOf(pid);
    for (const mount of [...mounts, ...upon]) {
      if (mount.id === this.#sought.busyMountId) continue;
      const holder: Holder = { kind: 'mount', path: mount.target, namespaceOf };
      this.#findings.push({ holder, keepsBusyMount: this.#busyIds.has(mount.parentId) });
    }
  }

  #isMountOfVolume(mount: Mount): boolean {
    return this.#isWholeFilesystem(mount) || this.#directories.some((each) => showsDirectory(mount, each));
  }

  #isWholeFilesystem(mount: Mount): boolean {
    const { devices, filesystems } = this.#sought;
    return (
      filesystems.some(({ fsType, source }) => mount.fsType === fsType && mount.source === source) ||
      devices.some(({ device }) => this.#shows(mount, device) === true)
    );
  }

  #isNodeOfVolume(mount: Mount): boolean {
    return this.#sought.devices.some(({ devicePath }) => isNodeOf(mount, devicePath));
  }

  #remember(mount: Mount): void {
    this.#mountIds.add(mount.id);
    if (this.#isWholeFilesystem(mount)) this.#filesystems.push(mount.device);
    if (!this.#isNodeOfVolume(mount)) this.#targets.add(mount.target);
    const group = this.#busyMount?.peerGroup;
    if (group !== undefined && (mount.peerGroup === group || mount.masterGroup === group)) this.#busyIds.add(mount.id);
  }

  async #lookAtFiles(pid: number): Promise<void> {
    if (this.#isStopped) return;
    const files = await heldFiles(queue, pid);
    for (const { link, status } of files) {
      const isOnVolume = status !== undefined && this.#isOnVolume(status);
      if (status !== undefined && !isOnVolume && !this.#mountsAround.has(status.mountId)) continue;
      const path = await targetOf(queue, link);
      if (path === undefined) continue;
      if (status !== undefined && !isOnVolume && !this.#isInDirectory(path, status.mountId)) continue;
      // The filesystem answers with errors, so only the path can show it.
      if (status === undefined && ![...this.#targets].some((target) => isAtOrBelow(path, target))) continue;
      const keeps = status === undefined ? this.#isBelowBusyMount(path) : this.#busyIds.has(status.mountId);
      return this.#addProcess(pid, path, keeps);
    }
  }

  async #lookAtMemory(pid: number): Promise<void> {
    if (this.#isStopped || (this.#filesystems.length === 0 && this.#mountsAround.size === 0)) return;
    // The process may be waiting for a page of its memory, and reading that memory would wait too.
    if ((await processState(queue, pid))?.isUninterruptible !== false) return;
    const mappings = await mappedFiles(queue, pid);
    for (const { device, link, path } of mappings) {
      const isOnVolume = this.#filesystems.some((each) => sameDevice(each, device));
      if (!isOnVolume && !this.#mayBeInDirectory(path)) continue;
      const mountId = await mountIdBehind(queue, link);
      if (!isOnVolume && (mountId === undefined || !this.#isInDirectory(path, mountId))) continue;
      return this.#addProcess(pid, path, mountId !== undefined && this.#busyIds.has(mountId));
    }
  }

  /** Answers if a file is in a sought directory, through any mount. */
  #isInDirectory(path: string, mountId: bigint): boolean {
    const mount = this.#mountsAround.get(mountId);
    const root = mount && rootThrough(mount, path);
    return mount !== undefined && root !== undefined && this.#isRootSought({ device: mount.device, root });
  }

  /** The same for a file whose mount is not known yet. */
  #mayBeInDirectory(path: string): boolean {
    return [...this.#mountsAround.keys()].some((mountId) => this.#isInDirectory(path, mountId));
  }

  #isRootSought(place: DirectoryRoot): boolean {
    return this.#directories.some((directory) => showsDirectory(place, directory));
  }

  #isOnVolume({ device, mountId, represents }: FileStatus): boolean {
    if (this.#mountIds.has(mountId)) return true;
    return this.#sought.devices.some((each) => sameDevice(each.device, device) || sameDevice(each.device, represents));
  }

  #isBelowBusyMount(path: string): boolean {
    return this.#busyMount !== undefined && isAtOrBelow(path, this.#busyMount.target);
  }

  /** Adds each process once, with the first thing that it holds. */
  async #addProcess(thread: number, path: string, keepsBusyMount: boolean): Promise<void> {
    const pid = this.#processes.get(thread) ?? thread;
    if (this.#findings.some(({ holder }) => holder.kind === 'process' && holder.pid === pid)) return;
    const state = await processState(queue, pid);
    if (state === undefined || this.#isStopped) return;
    this.#findings.push({ holder: { kind: 'process', pid, command: state.command, path }, keepsBusyMount });
  }

  async #memberOf(thread: number): Promise<NamespaceMember> {
    const pid = this.#processes.get(thread) ?? thread;
    return { pid, command: (await processState(queue, pid))?.command ?? 'gone' };
  }
}
