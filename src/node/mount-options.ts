import type { KernelError } from '../kernel/call/errno.ts';
import { type MountAttributes, MountParameterError } from '../kernel/mount/mount.ts';
import type { VolumeContent } from '../volume/capability.ts';
import { InvalidArgument } from '../volume/errors.ts';
import type { VolumeHandle } from '../volume/handle.ts';

/*
 * mount_flags, as a person writes them for mount(8), become what the kernel's mount calls take: attributes of the one
 * mount, and parameters of the filesystem. The flags may be sensitive (X02), so no message repeats one.
 */

/** A parameter for fsconfig(2): a flag, or a key with its value. */
export type FilesystemParameter = readonly [key: string] | readonly [key: string, value: string];

/** mount_flags, parsed. */
export interface MountOptions {
  readonly attributes: MountAttributes;
  /** For the filesystem itself; they take effect where it is mounted first, when it is staged. */
  readonly parameters: readonly FilesystemParameter[];
}

/** All attributes of a mount, none left to chance. */
export type AttributeState = Required<MountAttributes>;

/** The wanted attributes of a mount. An unset one is as the mounted directory's own filesystem has it. */
export type WantedAttributes = MountAttributes & Pick<AttributeState, 'readonly'>;

/** The kernel's attributes of a mount without any options. */
const defaultAttributes: AttributeState = {
  readonly: false,
  nosuid: false,
  nodev: false,
  noexec: false,
  nodiratime: false,
  nosymfollow: false,
  atime: 'relatime',
};

const attributeWords: ReadonlyMap<string, MountAttributes> = new Map<string, MountAttributes>([
  ['ro', { readonly: true }],
  ['rw', { readonly: false }],
  ['nosuid', { nosuid: true }],
  ['suid', { nosuid: false }],
  ['nodev', { nodev: true }],
  ['dev', { nodev: false }],
  ['noexec', { noexec: true }],
  ['exec', { noexec: false }],
  ['nodiratime', { nodiratime: true }],
  ['diratime', { nodiratime: false }],
  ['nosymfollow', { nosymfollow: true }],
  ['symfollow', { nosymfollow: false }],
  ['noatime', { atime: 'noatime' }],
  ['atime', { atime: 'relatime' }],
  ['relatime', { atime: 'relatime' }],
  ['nostrictatime', { atime: 'relatime' }],
  ['strictatime', { atime: 'strictatime' }],
  ['norelatime', { atime: 'strictatime' }],
  // mount(8) does so: a filesystem that any user may mount must not give rights.
  ['user', { nosuid: true, nodev: true, noexec: true }],
  ['users', { nosuid: true, nodev: true, noexec: true }],
  ['owner', { nosuid: true, nodev: true }],
  ['group', { nosuid: true, nodev: true }],
]);

/**
 * Words for fstab(5) and its readers, which say nothing to the kernel. mount(8) turns the last four into flags that
 * change nothing for ext4, XFS and btrfs of today (they always count versions), and fsconfig(2) does not know them.
 */
const wordsForOthers: ReadonlySet<string> = new Set([
  ...['defaults', '_netdev', 'nofail', 'auto', 'noauto', 'nouser', 'nousers', 'noowner', 'nogroup'],
  ...['silent', 'loud', 'iversion', 'noiversion'],
]);

/** Keys of what other programs read: systemd, file managers, people. */
const prefixesForOthers = ['x-', 'X-', 'comment='];

/** The options that would change which data is mounted, where it is, or how mounts spread: all of that is decided by CSI. */
const refusedKeys: ReadonlySet<string> = new Set([
  ...['bind', 'rbind', 'move', 'remount', 'beneath', 'source', 'fstype'],
  ...['shared', 'rshared', 'private', 'rprivate', 'slave', 'rslave', 'unbindable', 'runbindable'],
  ...['loop', 'offset', 'sizelimit', 'encryption'],
  // ext4: another superblock or journal; XFS and btrfs: other devices; btrfs: another subvolume.
  ...['sb', 'journal_dev', 'journal_path', 'logdev', 'rtdev', 'device', 'subvol', 'subvolid'],
]);

const refusedPrefixes = ['make-', 'X-mount.', 'x-mount.', 'verity.'];

/** @throws InvalidArgument for a word that a volume's mount must not have */
export function parseMountFlags(flags: readonly string[]): MountOptions {
  const attributes: MountAttributes = {};
  const parameters: FilesystemParameter[] = [];
  for (const word of flags.flatMap(wordsOf)) {
    if (isForOthers(word)) continue;
    const attribute = attributeWords.get(word);
    if (attribute !== undefined) Object.assign(attributes, attribute);
    else parameters.push(parseParameter(word));
  }
  return { attributes, parameters };
}

function isForOthers(word: string): boolean {
  if (wordsForOthers.has(word)) return true;
  return prefixesForOthers.some((prefix) => word.startsWith(prefix)) && !isRefused(word);
}

function isRefused(key: string): boolean {
  return refusedKeys.has(key) || refusedPrefixes.some((prefix) => key.startsWith(prefix));
}

/**
 * A flag may itself be a list, as after mount(8)'s -o. A comma inside quotes is part of a value, and the quotes are not
 * the kernel's: the kubelet sends context="system_u:object_r:container_file_t:s0:c1,c2" where SELinux is on.
 */
function wordsOf(flag: string): string[] {
  const words = flag.match(/(?:"[^"]*"|[^,])+/g) ?? [];
  // People write a blank after the comma.
  const trimmed = words.map((word) => word.trim()).filter((word) => word !== '');
  return trimmed.map((word) => word.replace(/^([^=]*=)"([^"]*)"$/, '$1$2'));
}

function parseParameter(word: string): FilesystemParameter {
  const parameter = parseOption(word);
  const [key] = parameter;
  if (isRefused(key)) {
    throw new InvalidArgument(
      'mount_flags has a word that would change which data is mounted, where, or how mounts propagate (such as bind, remount, loop, shared or subvol). Leave it out.',
    );
  }
  if (key === '' || word.includes('\0')) throw new InvalidArgument('mount_flags has a word that is no mount option.');
  return parameter;
}

/**
 * The error for a filesystem that refused the caller's options, without naming one (X02): its place among those that mount(8) would
 * pass to the filesystem. The driver's own come first.
 */
export function refusedOption(
  error: KernelError,
  {
    fsType,
    parameters,
    volumeId,
  }: { volumeId: VolumeHandle; fsType: string; parameters: readonly FilesystemParameter[] },
): InvalidArgument {
  const position = error instanceof MountParameterError ? error.positionFromLast(parameters.length) : undefined;
  const which =
    position === undefined || parameters.length === 1
      ? ''
      : `, number ${position} of the ${parameters.length} that are for the filesystem`;
  return new InvalidArgument(
    `volume ${volumeId}: mount_flags has an option that ${fsType} does not take (${error.code}${which}): correct mountOptions.`,
  );
}

/** An option for a filesystem, of which nothing is doubted. */
export function parseOption(word: string): FilesystemParameter {
  const equals = word.indexOf('=');
  return equals < 0 ? [word] : [word.slice(0, equals), word.slice(equals + 1)];
}

/** The attributes that a mount made with these has in the end. */
export function completeAttributes(attributes: MountAttributes): AttributeState {
  return { ...defaultAttributes, ...attributes };
}

/**
 * The wanted attributes of a volume's mount. A directory lies on a filesystem that an operator has mounted: if that is e.g.
 * nosuid, then so is the volume, unless it is requested otherwise.
 */
export function wantedAttributes(content: VolumeContent, asked: WantedAttributes): WantedAttributes {
  return content.type === 'directory' ? asked : completeAttributes(asked);
}

/** The attributes that a mount has, from its options in the mount table (proc_pid_mountinfo(5), field 6). */
export function attributesShown(options: readonly string[]): AttributeState {
  // The kernel shows no word for strictatime.
  const shown: MountAttributes = { atime: 'strictatime' };
  for (const option of options) Object.assign(shown, attributeWords.get(option));
  return completeAttributes(shown);
}

const attributeNames = ['readonly', 'nosuid', 'nodev', 'noexec', 'nodiratime', 'nosymfollow', 'atime'] as const;

/** True if a mount has the wanted attributes. */
export function hasAttributes(shown: AttributeState, wanted: WantedAttributes): boolean {
  return attributeNames.every((name) => wanted[name] === undefined || wanted[name] === shown[name]);
}
