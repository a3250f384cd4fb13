import { CommandError, run } from './run.ts';

/** Key material that opens an encrypted device: it leaves this process only by a program's standard input. */
export interface KeyMaterial {
  readonly bytes: Uint8Array;
  /** Random keys cannot be guessed: slowing down attackers would only take time. */
  readonly isRandom: boolean;
}

export interface LuksFormat {
  readonly devicePath: string;
  readonly uuid: string;
  /** The name of the key. */
  readonly label: string;
  readonly sectorBytes: number;
  /** Offset of the data. */
  readonly dataOffsetBytes: number;
  /** Size of the header and its keys, from the beginning of the device. */
  readonly headerBytes: number;
}

export interface LuksOpen {
  readonly devicePath: string;
  readonly name: string;
  /** `luks`: any version, for disks that other programs have encrypted. */
  readonly type?: 'luks' | 'luks2';
  readonly isReadonly?: boolean;
}

/** No key, or a wrong one (cryptsetup(8), return codes). */
export class WrongKey extends Error {}

const wrongKey = 2;

/**
 * No other program changes a header meanwhile; the lock's directory would have to be the node's. Disables questions.
 */
const quiet = ['--batch-mode', '--disable-locks'];
const fromInput = ['--key-file', '-'];

/**
 * A random key needs no stretching. A passphrase gets a cost that an attacker has to pay as well, and no more memory
 * than a container has; without a fixed number cryptsetup would measure for two seconds each time.
 */
function stretching({ isRandom }: KeyMaterial): string[] {
  return isRandom
    ? ['--pbkdf', 'pbkdf2', '--pbkdf-force-iterations', '1000']
    : ['--pbkdf', 'argon2id', '--pbkdf-memory', '65536', '--pbkdf-parallel', '1', '--pbkdf-force-iterations', '4'];
}

/** The two copies of the header's metadata, before the keys (LUKS2 On-Disk Format Specification, 2.2). */
const twoCopiesBytes = 2 * (16 << 10);

export function formatArguments(format: LuksFormat, key: KeyMaterial): string[] {
  const { dataOffsetBytes, devicePath, headerBytes, label, sectorBytes, uuid } = format;
  const keys = ['--luks2-keyslots-size', `${headerBytes - twoCopiesBytes}`];
  const layout = [
    '--type',
    'luks2',
    '--offset',
    `${dataOffsetBytes / 512}`,
    ...keys,
    '--sector-size',
    `${sectorBytes}`,
  ];
  const cipher = ['--cipher', 'aes-xts-plain64', '--key-size', '512', '--hash', 'sha256'];
  const names = ['--uuid', uuid, '--label', label];
  return [...quiet, 'luksFormat', ...layout, ...cipher, ...names, ...stretching(key), ...fromInput, devicePath];
}

/**
 * The key of the data stays out of the kernel's keyring, which a container may not share with the node: so the device
 * grows without a key. Reads and writes are encrypted in the calling thread, as disks are quick today.
 */
export function openArguments({ devicePath, isReadonly = false, name, type = 'luks2' }: LuksOpen): string[] {
  const device = ['--disable-keyring', '--allow-discards', '--perf-no_read_workqueue', '--perf-no_write_workqueue'];
  const access = isReadonly ? ['--readonly'] : [];
  return [...quiet, 'open', '--type', type, ...device, ...access, ...fromInput, devicePath, name];
}

/** Standard input has the present key first, then the new one. */
export function addKeyArguments(devicePath: string, presentBytes: number, added: KeyMaterial): string[] {
  const sizes = ['--keyfile-size', `${presentBytes}`];
  return [...quiet, 'luksAddKey', ...stretching(added), ...fromInput, ...sizes, devicePath, '-'];
}

export async function formatLuks(format: LuksFormat, key: KeyMaterial): Promise<void> {
  await cryptsetup(formatArguments(format, key), key.bytes);
}

/** Makes the device of the data. @throws WrongKey */
export async function openLuks(open: LuksOpen, key: KeyMaterial): Promise<void> {
  await cryptsetup(openArguments(open), key.bytes);
}

/** Answers if the key opens the device, of any version of LUKS. */
export async function fitsLuks(devicePath: string, key: KeyMaterial): Promise<boolean> {
  const options = ['--type', 'luks', '--test-passphrase', ...fromInput];
  return succeeds(() => cryptsetup([...quiet, 'open', ...options, devicePath], key.bytes));
}

/** @throws WrongKey if the present one does not open it */
export async function addLuksKey(devicePath: string, present: KeyMaterial, added: KeyMaterial): Promise<void> {
  const input = Buffer.concat([present.bytes, added.bytes]);
  await cryptsetup(addKeyArguments(devicePath, present.bytes.length, added), input);
}

/** @returns whether there was such a key */
export async function removeLuksKey(devicePath: string, key: KeyMaterial): Promise<boolean> {
  return succeeds(() => cryptsetup([...quiet, 'luksRemoveKey', ...fromInput, devicePath], key.bytes));
}

export async function nameLuks(devicePath: string, label: string): Promise<void> {
  await cryptsetup([...quiet, 'config', '--label', label, devicePath]);
}

export async function identifyLuks(devicePath: string, uuid: string): Promise<void> {
  await cryptsetup([...quiet, 'luksUUID', '--uuid', uuid, devicePath]);
}

/** Grows the device to the size of the one below. */
export async function resizeLuks(name: string): Promise<void> {
  await cryptsetup([...quiet, 'resize', name]);
}

/** If memory runs out, the kernel shall end this process and not the driver. */
const endedFirst = ['sh', '-c', 'echo 1000 2>/dev/null >/proc/self/oom_score_adj || :; exec "$@"', 'sh'];

async function succeeds(work: () => Promise<void>): Promise<boolean> {
  try {
    await work();
    return true;
  } catch (error) {
    if (error instanceof WrongKey) return false;
    throw error;
  }
}

/**
 * Ends with the driver: no start of the driver would look for a device that it makes later. Does not wait for udev:
 * that takes a semaphore of the node, which a container does not see, and nothing here depends on udev.
 */
async function cryptsetup(args: readonly string[], input: Uint8Array = new Uint8Array()): Promise<void> {
  const program = ['--pdeathsig', 'KILL', ...endedFirst, 'cryptsetup', ...args];
  const { exitCode, stderr } = await run('setpriv', program, {
    input,
    environment: { DM_DISABLE_UDEV: '1' },
    accept: Array.from({ length: 128 }, (_, code) => code),
  });
  if (exitCode === 0) return;
  if (exitCode === wrongKey) throw new WrongKey('the key does not fit');
  const reason = exitCode === 127 ? 'is not installed' : `failed with exit code ${exitCode}`;
  throw new CommandError('cryptsetup', exitCode, reason, exitCode === 127 ? '' : stderr);
}
