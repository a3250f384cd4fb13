import { randomUUID } from 'node:crypto';
import { identifyLuks, type KeyMaterial } from '../../../command/cryptsetup.ts';
import { giveNewIdentity } from '../../../filesystems/identity.ts';
import { syncFile } from '../../../kernel/file/file.ts';
import type { Encryption } from '../../../volume/encryption.ts';
import { InternalError } from '../../../volume/errors.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import { step } from '../../../volume/step.ts';
import type { NewData, SnapshotDraft, VolumeDraft } from '../../backend.ts';
import { over } from '../over.ts';
import { below, belowRecorded } from './below.ts';
import { formatNew, makeFilesystem, type NewHeader } from './format.ts';
import type { LuksParts } from './luks-layer.ts';
import { draftName, explained, withMapper } from './mapper.ts';

/** A volume being made: encrypted once, here, before it is visible. */
export function volumeDraft(parts: LuksParts, inner: VolumeDraft): VolumeDraft {
  const { programs, queue, ring } = parts;
  return over<VolumeDraft>(inner, {
    clone: (source) => inner.clone(belowRecorded(source)),

    async check(record, { isClone, secrets }) {
      const { content, encryption } = record;
      // The header of a clone comes with the data: without a filesystem there is no need to open it.
      const opens = encryption !== undefined && !(isClone && content.type === 'block');
      if (opens) await ring.keysOf(record, { secrets, use: 'create' });
    },

    async make(record, data) {
      const { encryption } = record;
      if (encryption === undefined) return inner.make(record, data);
      const { current } = await ring.keysOf(record, { secrets: data.secrets, use: 'create' });
      await inner.make(record, belowData(record, { ...data, mkfsArguments: [] }));
      await showing(inner, data.blockSizeBytes, async (devicePath) => {
        await step('luks/format', () =>
          programs.cryptsetup(() => formatNew(devicePath, newHeader(record, encryption), current)),
        );
        const { content } = data;
        if (content.type !== 'mount') return;
        await inside(parts, record, { devicePath, key: current }, (upper) =>
          step('create/format', () => makeFilesystem(parts, upper, data)),
        );
      });
    },

    async complete(record, data) {
      if (record.encryption === undefined) return inner.complete(record, data);
      const { content } = data;
      // The header came with the data, and opens with the source's key.
      const keys =
        content.type === 'mount' ? await ring.keysOf(record, { secrets: data.secrets, use: 'create' }) : undefined;
      await inner.complete(record, belowData(record, data));
      await showing(inner, data.blockSizeBytes, async (devicePath) => {
        await step('luks/identity', () => programs.cryptsetup(() => identifyLuks(devicePath, randomUUID()))).catch(
          async (error) => {
            throw await explained(queue, error, { devicePath, volume: record });
          },
        );
        if (content.type !== 'mount' || keys === undefined) return;
        const { fsType } = content;
        await inside(parts, record, { devicePath, key: keys.current, previous: keys.previous }, async (path) => {
          await step('create/identity', () =>
            giveNewIdentity(queue, { path, fsType, blockSizeBytes: data.blockSizeBytes }),
          );
          await syncFile(queue, path);
        });
      });
    },
  });
}

export function snapshotDraft(inner: SnapshotDraft): SnapshotDraft {
  return over<SnapshotDraft>(inner, { clone: (source) => inner.clone(belowRecorded(source)) });
}

function belowData<Data extends Pick<NewData, 'content' | 'secrets' | 'sizeBytes'>>(
  { encryption }: VolumeRecord,
  data: Data,
): Data {
  return { ...below({ ...data, encryption }), content: { type: 'block' }, secrets: undefined };
}

function showing(
  inner: VolumeDraft,
  blockSizeBytes: number,
  work: (devicePath: string) => Promise<void>,
): Promise<void> {
  if (inner.withDevice === undefined) throw new InternalError('a kind without devices cannot be encrypted.');
  return inner.withDevice(blockSizeBytes, work);
}

function inside(
  parts: LuksParts,
  record: VolumeRecord,
  open: { readonly devicePath: string; readonly key: KeyMaterial; readonly previous?: KeyMaterial | undefined },
  work: (devicePath: string) => Promise<void>,
): Promise<void> {
  return withMapper(parts, record, { ...open, name: draftName(record.id, parts.tag) }, work);
}

function newHeader({ blockSizeBytes }: VolumeRecord, { headerBytes, keyId }: Encryption): NewHeader {
  return { label: keyId, dataOffsetBytes: headerBytes, sectorBytes: blockSizeBytes };
}
