import { randomUUID } from 'node:crypto';
import { formatLuks, type KeyMaterial, type LuksFormat } from '../../../command/cryptsetup.ts';
import { format } from '../../../command/mkfs.ts';
import { CommandError } from '../../../command/run.ts';
import { mountBriefly } from '../../../filesystems/brief-mount.ts';
import { KernelError } from '../../../kernel/call/errno.ts';
import { syncFile } from '../../../kernel/file/file.ts';
import { luksHeaderBytes } from '../../../volume/encryption.ts';
import { InvalidArgument } from '../../../volume/errors.ts';
import type { NewData } from '../../backend.ts';
import type { LuksParts } from './luks-layer.ts';

export type NewHeader = Pick<LuksFormat, 'dataOffsetBytes' | 'label' | 'sectorBytes'> &
  Partial<Pick<LuksFormat, 'headerBytes' | 'uuid'>>;

/** Makes the header of a new volume, on a device that is known to be free for it. */
export async function formatNew(devicePath: string, header: NewHeader, key: KeyMaterial): Promise<void> {
  await formatLuks({ headerBytes: luksHeaderBytes, uuid: randomUUID(), ...header, devicePath }, key);
}

/** Makes the filesystem of a new volume in its encryption, durably; nothing for a raw block volume. */
export async function makeFilesystem(
  { programs, queue }: Pick<LuksParts, 'programs' | 'queue'>,
  path: string,
  data: Pick<NewData, 'blockSizeBytes' | 'content' | 'mkfsArguments' | 'sizeBytes'>,
): Promise<void> {
  const { blockSizeBytes, content, mkfsArguments: extraArguments, sizeBytes } = data;
  if (content.type !== 'mount') return;
  const { fsType } = content;
  try {
    await programs.format(() => format({ path, fsType, sizeBytes, blockSizeBytes, extraArguments }));
    // Not everything that mkfs makes on demand can be mounted by this kernel: e.g. blocks larger than a page.
    if (extraArguments.length > 0) await mountBriefly(queue, fsType, path);
    await syncFile(queue, path);
  } catch (error) {
    const isForCaller = extraArguments.length > 0 && (error instanceof CommandError || error instanceof KernelError);
    throw isForCaller ? new InvalidArgument(`mkfsOptions: ${error.message}`) : error;
  }
}
