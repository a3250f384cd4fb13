import { CommandError } from '../../../command/run.ts';
import { mountBriefly } from '../../../filesystems/brief-mount.ts';
import { repairFilesystem } from '../../../filesystems/repair.ts';
import { KernelError } from '../../../kernel/call/errno.ts';
import { syncFile } from '../../../kernel/file/file.ts';
import { DataLoss, InternalError } from '../../../volume/errors.ts';
import type { FilesystemType } from '../../../volume/filesystem.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import type { Secrets } from '../../../volume/secrets.ts';
import type { Extras, RepairDraft } from '../../backend.ts';
import { over } from '../over.ts';
import { below } from './below.ts';
import type { LuksParts } from './luks-layer.ts';
import { draftName, withMapper } from './mapper.ts';

const repairsAtOnce = 2;

type RepairDraftOf = NonNullable<Extras['repairDraft']>;

/** Repairs what lies in the encryption, on a clone that is opened with the volume's key. */
export function luksRepairDraft(parts: LuksParts, inner: RepairDraftOf): RepairDraftOf {
  const programs = parts.queue.beside('repair encrypted', repairsAtOnce);

  return (record, fsType, secrets) => {
    const draft = inner(below(record), fsType, undefined);
    if (record.encryption === undefined) return draft;
    return over<RepairDraft>(draft, { fix: () => fix(draft, { record, fsType, secrets }) });
  };

  async function fix(draft: RepairDraft, { fsType, record, secrets }: Damaged): Promise<void> {
    const { queue, ring, tag } = parts;
    const { id } = record;
    if (draft.withDevice === undefined) throw new InternalError(`volume ${id}: its clone cannot be shown as a device.`);
    const { current: key, previous } = await ring.keysOf(record, { secrets, use: 'stage' });
    await draft.withDevice((devicePath) =>
      withMapper(parts, record, { devicePath, key, previous, name: draftName(id, tag) }, async (path) => {
        const mount = () => mountBriefly(queue, fsType, path, fsType === 'xfs' ? [['nouuid']] : []);
        try {
          await repairFilesystem(programs, { path, fsType, mount });
          await syncFile(queue, path);
        } catch (error) {
          if (!(error instanceof CommandError || error instanceof KernelError)) throw error;
          throw new DataLoss(
            `volume ${id}: its ${fsType} is damaged and could not be repaired on a clone (${error.message}). It is left as it is: restore a snapshot or backup.`,
          );
        }
      }),
    );
  }
}

interface Damaged {
  readonly record: VolumeRecord;
  readonly fsType: FilesystemType;
  readonly secrets: Secrets | undefined;
}
