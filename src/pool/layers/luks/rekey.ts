import { addLuksKey, fitsLuks, type KeyMaterial, nameLuks, removeLuksKey } from '../../../command/cryptsetup.ts';
import { mappedOver } from '../../../kernel/block/device-mapper.ts';
import { openReadOnly } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { newKeyId } from '../../../volume/encryption.ts';
import { FailedPrecondition, InternalError } from '../../../volume/errors.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import type { Secrets } from '../../../volume/secrets.ts';
import { step } from '../../../volume/step.ts';
import { below } from './below.ts';
import { readNames } from './header.ts';
import { type Keys, parseKeys } from './key.ts';
import type { LuksParts } from './luks-layer.ts';
import { explained, type Opened, wrongKey } from './mapper.ts';

/**
 * Gives a volume the new key and takes the previous one away. At each moment one of the two opens it; cut short, the next
 * call with both goes on. The name of the key lies in the header, so that it comes and goes with the keys.
 * @returns the name of the key; undefined: the secrets say nothing of a previous one
 */
export async function changeKey(
  { inner, programs, queue }: LuksParts,
  record: VolumeRecord,
  secrets: Secrets,
): Promise<string | undefined> {
  const keys = parseKeys(secrets);
  if (keys?.previous === undefined || isSame(keys)) return undefined;
  const lower = await inner.attacher.attach(below(record), { persistent: false });
  if (lower.kind !== 'device') throw new InternalError(`volume ${record.id} has no device to be encrypted on.`);
  let isDone = false;
  try {
    const { devicePath } = lower;
    await replaceKey({ programs, queue }, record, devicePath, keys);
    await using device = await openReadOnly(queue, devicePath);
    const keyId = (await readNames(queue, device))?.label;
    isDone = true;
    return keyId;
  } finally {
    await lower.release();
    // Else the volume would be in use, though its stage has failed.
    if (!isDone && (await mappedOver(queue, lower.device)).length === 0) await inner.attacher.detach(lower);
  }
}

/** The same of a volume whose device is there. */
export async function replaceKey(
  { programs, queue }: Pick<LuksParts, 'programs' | 'queue'>,
  volume: Opened,
  devicePath: string,
  keys: Keys,
): Promise<void> {
  const { current, previous } = keys;
  if (previous === undefined || isSame(keys)) return;
  const fits = (key: KeyMaterial) => programs.cryptsetup(() => fitsLuks(devicePath, key));
  try {
    if (await isFirstVersion(queue, devicePath)) {
      if (await fits(previous)) throw notChangedHere(volume);
      return;
    }
    if (!(await fits(current))) {
      await step('luks/add-key', () => programs.cryptsetup(() => addLuksKey(devicePath, previous, current)));
      if (!(await fits(current))) throw wrongKey(volume);
    }
    if (!(await fits(previous))) return;
    await step('luks/name-key', () => programs.cryptsetup(() => nameLuks(devicePath, newKeyId())));
    await step('luks/remove-key', () => programs.cryptsetup(() => removeLuksKey(devicePath, previous)));
  } catch (error) {
    throw await explained(queue, error, { devicePath, volume });
  }
}

async function isFirstVersion(queue: DiskQueue, devicePath: string): Promise<boolean> {
  await using device = await openReadOnly(queue, devicePath);
  return (await readNames(queue, device))?.version === 1;
}

/** Its header has one copy, and no place for the name of a key: a change that is cut short could not go on. */
function notChangedHere({ id }: Opened): FailedPrecondition {
  return new FailedPrecondition(
    `volume ${id}: a key of LUKS 1 is not changed here: run cryptsetup luksChangeKey (or convert), then take the previous key out of the Secret. Nothing was changed.`,
  );
}

function isSame({ current, previous }: Keys): boolean {
  return previous !== undefined && Buffer.compare(current.bytes, previous.bytes) === 0;
}
