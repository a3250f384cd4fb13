import { InvalidArgument } from '../volume/errors.ts';
import type { FilesystemType } from '../volume/filesystem.ts';

/**
 * The options of mkfs that the `mkfsOptions` parameter may carry. Only ones that shape the filesystem: nothing that
 * names a file or a device (`-d name=`, `-J device=`, `--rootdir`), forces, changes the size, or sets the identity.
 */
interface OptionRules {
  /**
   * Options with a value, `-b 4096`. The list names the keys that must not stand before `=` in the value: they reach
   * outside the image, are the driver's to decide, or make a filesystem that cannot grow. A name with `_` at its end is
   * a prefix.
   */
  readonly valued: Readonly<Record<string, readonly string[]>>;
  /** Options without a value. */
  readonly flags: readonly string[];
}

const rules: Readonly<Record<FilesystemType, OptionRules>> = {
  ext4: {
    valued: {
      '-b': [],
      '-E': ['offset', 'resize', 'root_owner', 'root_selinux', 'discard'],
      '-e': [],
      '-G': [],
      '-g': [],
      '-I': [],
      '-i': [],
      '-J': ['device', 'location'],
      '-m': [],
      '-N': [],
      // bigalloc: neither resize2fs nor the kernel can grow it. fast_commit: after a crash with a deleted file open, Linux
      // 6.18 does not mount it. feature_: any feature, by its number.
      '-O': ['journal_dev', 'bigalloc', 'fast_commit', 'feature_'],
    },
    flags: [],
  },
  xfs: {
    valued: {
      '-b': [],
      '-d': ['name', 'file', 'size', 'cowextsize', 'daxinherit', 'rtinherit'],
      '-i': [],
      '-l': ['logdev', 'name', 'file', 'internal'],
      '-m': ['uuid'],
      '-n': [],
      '-s': [],
    },
    flags: ['-K'],
  },
  btrfs: {
    valued: { '-O': [], '-n': [], '-s': [], '-m': [], '-d': [], '--csum': [], '--nodesize': [], '--sectorsize': [] },
    flags: ['-K', '--nodiscard', '-M', '--mixed'],
  },
};

/** No slash: no value is a path. No quotes: there is no shell to read them. */
const harmlessValue = /^[A-Za-z0-9^_.,=:+-]{1,100}$/;

/**
 * Splits and checks the `mkfsOptions` parameter.
 * @returns arguments for mkfs, to stand before the ones the driver adds itself
 * @throws InvalidArgument naming the first option that is not allowed
 */
export function parseMkfsOptions(fsType: FilesystemType, text: string): string[] {
  const words = text.split(/[ \t\n]+/).filter((word) => word !== '');
  const { valued, flags } = rules[fsType];
  const known = [...Object.keys(valued), ...flags].join(' ');
  const args: string[] = [];
  for (let index = 0; index < words.length; index++) {
    const word = words[index] ?? '';
    if (flags.includes(word)) {
      args.push(word);
      continue;
    }
    const forbiddenKeys = Object.hasOwn(valued, word) ? valued[word] : undefined;
    if (forbiddenKeys === undefined) throw refused(fsType, word, `allowed are ${known}`);
    const value = words[++index] ?? '';
    if (!harmlessValue.test(value) || value.startsWith('-')) throw refused(fsType, `${word} ${value}`, 'bad value');
    const forbidden = value.split(',').find((part) => isForbidden(part, forbiddenKeys));
    if (forbidden !== undefined) throw refused(fsType, word, `'${forbidden}' cannot be chosen`);
    args.push(word, value);
  }
  return args;
}

/** Answers if the arguments set a block or sector size, which may be too small for a device with large blocks. */
export function chooseBlockSize(fsType: FilesystemType, mkfsArguments: readonly string[]): boolean {
  const options: Readonly<Record<FilesystemType, readonly string[]>> = { ext4: ['-b'], xfs: ['-b', '-s'], btrfs: [] };
  return options[fsType].some((option) => mkfsArguments.includes(option));
}

/** mke2fs ignores case, and accepts a plus before a feature. */
function isForbidden(part: string, forbiddenKeys: readonly string[]): boolean {
  const key = part.replace(/^\+/, '').replace(/=.*$/, '').toLowerCase();
  return forbiddenKeys.some((each) => (each.endsWith('_') ? key.startsWith(each) : key === each));
}

function refused(fsType: FilesystemType, option: string, reason: string): InvalidArgument {
  return new InvalidArgument(`mkfsOptions: '${option}' cannot be used for ${fsType}: ${reason}.`);
}
