import { createHash } from 'node:crypto';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { errnoName } from '../../../kernel/call/errno.ts';
import type { ByteRange } from '../../../kernel/file/sparse.ts';
import { encryptionTypes, luksHeaderBytes } from '../../../volume/encryption.ts';
import type { VolumeId } from '../../../volume/id.ts';
import { step } from '../../../volume/step.ts';
import type { Attacher, Backend, Extras, IncomingSnapshotDraft, Layer, Provisioner, Transfer } from '../../backend.ts';
import type { TrashRef } from '../../indexes/trash-entry.ts';
import { FilesystemTrimmer } from '../../trimmer.ts';
import { over } from '../over.ts';
import { luksAttacher } from './attacher.ts';
import { below, belowRecorded } from './below.ts';
import { snapshotDraft, volumeDraft } from './drafts.ts';
import { eraseHeader, hasHeader } from './header.ts';
import { KeyRing } from './key-ring.ts';
import { LuksPrograms } from './programs.ts';
import { changeKey } from './rekey.ts';
import { luksRepairDraft } from './repair-draft.ts';

export interface LuksOptions {
  readonly poolName: string;
  /** The driver's own directory: two drivers may have a pool of one name. */
  readonly dataDirectory: string;
  /** Opens volumes for which no secret comes. */
  readonly keyFile: string | undefined;
}

/** The shared tools of the parts of the layer. */
export interface LuksParts {
  readonly inner: Backend;
  readonly queue: DiskQueue;
  readonly ring: KeyRing;
  readonly programs: LuksPrograms;
  /** Tells this pool's drafts from those of others. */
  readonly tag: string;
}

/**
 * Encryption over any backend that has devices (docs/encryption.md). Volumes that are not encrypted pass through it as
 * they are. What a volume has of LUKS lies before its data, in a header that is added to its size.
 */
export const luksLayer: Layer<LuksOptions> = (inner, { dataDirectory, keyFile, poolName }) => {
  // Where the home of a pool makes volumes, they have no device yet.
  if (!inner.traits.block || inner.cluster !== undefined) return inner;
  const { queue, snapshotDraft: lowerDraft } = inner;
  const tag = createHash('sha256').update(`${dataDirectory}\0${poolName}`).digest('hex').slice(0, 8);
  const parts: LuksParts = {
    inner,
    queue,
    ring: new KeyRing(poolName, keyFile),
    programs: new LuksPrograms(queue),
    tag,
  };
  const attacher = luksAttacher(parts);
  return over<Backend>(inner, {
    traits: { ...inner.traits, encryption: encryptionTypes },
    provisioner: provisioner(parts),
    attacher,
    snapshotDraft: lowerDraft && ((id) => snapshotDraft(lowerDraft(id))),
    extras: extras(parts, attacher, poolName),
  });
};

function provisioner(parts: LuksParts): Provisioner {
  const { inner } = parts;
  return over<Provisioner>(inner.provisioner, {
    draft: (id, options) => volumeDraft(parts, inner.provisioner.draft(id, options)),
    verify: (object) => inner.provisioner.verify(belowRecorded(object)),
    conditionOf: (record) => inner.provisioner.conditionOf(below(record)),
    grow: (record) => inner.provisioner.grow(below(record)),
    shred: (ref) => shred(parts, ref),
    async destroy(ref, how) {
      await shred(parts, ref).catch((error) => {
        // Its blocks are shared with a living object, and there is no room for others; or they cannot be read, by
        // any program then; or it is no volume at all.
        if (errnoName(error) === undefined) throw error;
      });
      await inner.provisioner.destroy(ref, how);
    },
  });
}

/** The place and the size of a header are the same for all: an object in the trash may have no record any more. */
async function shred({ inner, queue }: LuksParts, ref: TrashRef): Promise<void> {
  await using data = await inner.provisioner.openInTrash?.(ref);
  if (data !== undefined && (await hasHeader(queue, data))) {
    await step('luks/erase', () => eraseHeader(queue, data, luksHeaderBytes));
  }
}

function extras(parts: LuksParts, attacher: Attacher, name: string): Extras {
  const { inner, queue } = parts;
  const { changedRanges, repairDraft, thickness, transfer, trim } = inner.extras;
  const takenBytes = (id: VolumeId) => inner.space.allocatedBytes(id);
  const trimmer = new FilesystemTrimmer({ name, queue, attacher, takenBytes });
  return {
    ...inner.extras,
    changeKey: (record, secrets) => changeKey(parts, record, secrets),
    trim:
      trim &&
      ((record, options) => (record.encryption === undefined ? trim(record, options) : trimmer.trim(record, options))),
    changedRanges:
      changedRanges &&
      ((request, find) => {
        const { encryption } = find(request.target);
        if (encryption === undefined) return changedRanges(request, find);
        const header = BigInt(encryption.headerBytes);
        const shifted = { ...request, fromBytes: request.fromBytes + header };
        return behind(
          header,
          changedRanges(shifted, (id) => below(find(id))),
        );
      }),
    thickness: thickness && {
      makeThick: (record) => thickness.makeThick(below(record)),
      makeThin: (record) => thickness.makeThin(below(record)),
    },
    repairDraft: repairDraft && luksRepairDraft(parts, repairDraft),
    transfer: transfer && withHeaders(transfer),
  };
}

/** A volume moves as it lies on the disk: with its header, and without its key. */
function withHeaders(transfer: Transfer): Transfer {
  const { changedRanges, incomingSnapshot } = transfer;
  return over<Transfer>(transfer, {
    read: (object) => transfer.read(belowRecorded(object)),
    changedRanges: changedRanges && ((request, find) => changedRanges(request, (id) => below(find(id)))),
    incomingSnapshot:
      incomingSnapshot &&
      ((id) => {
        const draft = incomingSnapshot(id);
        return over<IncomingSnapshotDraft>(draft, {
          make: (sizeBytes, base) => draft.make(sizeBytes, base && belowRecorded(base)),
        });
      }),
  });
}

/** The same ranges as the user of the volume counts. */
async function* behind(offset: bigint, ranges: AsyncIterable<ByteRange>): AsyncGenerator<ByteRange, void, void> {
  for await (const { lengthBytes, offsetBytes } of ranges) yield { lengthBytes, offsetBytes: offsetBytes - offset };
}
