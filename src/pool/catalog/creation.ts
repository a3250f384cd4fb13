import { type Encryption, storedBytes } from '../../volume/encryption.ts';
import { AlreadyExists, InvalidArgument, NotFound } from '../../volume/errors.ts';
import type { VolumeId } from '../../volume/id.ts';
import { defaultLayout } from '../../volume/layout.ts';
import type { VolumeRecord, VolumeSource } from '../../volume/record.ts';
import type { Secrets } from '../../volume/secrets.ts';
import { larger } from '../../volume/size.ts';
import { step } from '../../volume/step.ts';
import type { Recorded, VolumeDraft } from '../backend.ts';
import { encryptionIn, type Traits, type VolumeSpec } from '../pool.ts';
import type { HeldSpace } from '../space/space-ledger.ts';
import { noClones, refuseCopyInUse } from './clones.ts';
import { freezeTarget, isAtRest } from './freeze-target.ts';
import { explainFull } from './full.ts';
import type { CatalogParts } from './parts.ts';

/** A source, and the volume that may be in use while it is cloned. */
interface CloneSource {
  readonly from: Recorded;
  readonly volumeId: VolumeId | undefined;
}

/** In the record of a volume that has no device: its field is a number. */
const notedBlockBytes = 4096;

/** Makes volumes: as drafts that are not visible. Before the commit nothing exists, after it everything does. */
export class Creation {
  readonly #parts: CatalogParts;

  constructor(parts: CatalogParts) {
    this.#parts = parts;
  }

  async create(spec: VolumeSpec, source?: VolumeSource): Promise<VolumeRecord> {
    const { backend, generations, index, name, space, trash, unsettled } = this.#parts;
    if (index.get(spec.id) !== undefined) throw new AlreadyExists(`volume ${spec.id} exists already.`);
    await generations.refuseMoved(spec.id);
    const cloned = source === undefined ? undefined : await this.#find(source);
    const record = recordOf(spec, source, {
      blockSizeBytes: cloned?.from.record.blockSizeBytes ?? backend.blockSizeOf?.(spec) ?? notedBlockBytes,
      encryption: encryptionOf(spec, cloned, backend.traits),
    });
    const isCopy = cloned !== undefined && backend.traits.snapshots === 'copy';
    if (isCopy && cloned.volumeId !== undefined) await refuseCopyInUse(this.#parts, cloned.volumeId);
    const { layout = defaultLayout, wipe, zone } = spec;
    const draft = backend.provisioner.draft(spec.id, { isResumable: isCopy, layout, wipe, zone });
    // A resumed copy needs no space for the part that an earlier try has copied.
    const copiedBytes = isCopy ? await draft.takenBytes() : 0n;
    const wholeBytes = storedBytes(record);
    const neededBytes = backend.space.layouts?.neededBytes(wholeBytes, layout) ?? wholeBytes;
    using held = await space.hold({
      newBytes: larger(0n, neededBytes - copiedBytes),
      provisioning: spec.provisioning,
      taken: async () => (await draft.takenBytes()) - copiedBytes,
      sourceIds: cloned?.volumeId !== undefined && backend.space.sharesBlocks ? [cloned.volumeId] : [],
    });
    // True once its commit has begun: it may exist.
    let isCommitted = false;
    try {
      const { mkfsArguments, secrets } = spec;
      await draft.check?.(record, { secrets, isClone: cloned !== undefined });
      await step('create/directory', () => draft.begin());
      if (cloned === undefined) await draft.make(record, { ...record, mkfsArguments, secrets });
      else await this.#clone(cloned, draft, { record, secrets }, backend.space.sharesBlocks ? held : undefined);
      // An earlier one of that name may have been deleted.
      await this.#parts.generations.forget(record.id);
      isCommitted = true;
      await step('create/commit', () => draft.commit());
    } catch (error) {
      trash.destroy(await draft.discard().catch(() => undefined));
      if (isCommitted) await unsettled.recheck([spec.id]);
      throw explainFull(error, name, spec.sizeBytes);
    }
    this.#parts.untouched.add(record);
    index.put(record);
    return record;
  }

  async #clone(
    { from, volumeId }: CloneSource,
    draft: VolumeDraft,
    { record, secrets }: { readonly record: VolumeRecord; readonly secrets: Secrets | undefined },
    held: HeldSpace | undefined,
  ): Promise<void> {
    const { freezer, index } = this.#parts;
    const volume = volumeId === undefined ? undefined : index.get(volumeId);
    const target = volume === undefined ? undefined : await freezeTarget(this.#parts, volume);
    const clone = draft.clone(from);
    await freezer.whileFrozen(target === undefined ? [] : [target], {
      ahead: () => step('create/ahead', async () => clone.goAhead?.()),
      work: (signal) =>
        step('create/clone', () => clone.complete({ isAtRest: target === undefined || isAtRest(target), signal })),
    });
    await draft.complete(record, { ...record, secrets });
    await held?.confirm();
  }

  /** @throws NotFound, DataLoss */
  async #find(source: VolumeSource): Promise<CloneSource> {
    const { backend, index, name, snapshotIndex } = this.#parts;
    // No clone can be made of such a source (CV26).
    if (backend.snapshotDraft === undefined) throw new InvalidArgument(noClones(this.#parts));
    const record = source.type === 'volume' ? index.get(source.id) : snapshotIndex.get(source.id);
    if (record === undefined) throw new NotFound(`There is no ${source.type} ${source.id} in pool ${name}.`);
    const from = { kind: source.type, record } as Recorded;
    await backend.provisioner.verify(from);
    return { from, volumeId: source.type === 'volume' ? source.id : undefined };
  }
}

/** A clone is encrypted in the same way as its source, and with the same key. */
function encryptionOf(
  { encryption }: VolumeSpec,
  cloned: CloneSource | undefined,
  traits: Traits,
): Encryption | undefined {
  if (cloned !== undefined) return cloned.from.record.encryption;
  return encryption === undefined ? undefined : encryptionIn(traits, encryption);
}

interface Fixed {
  readonly blockSizeBytes: number;
  readonly encryption: Encryption | undefined;
}

function recordOf(
  spec: VolumeSpec,
  source: VolumeSource | undefined,
  { blockSizeBytes, encryption }: Fixed,
): VolumeRecord {
  return {
    id: spec.id,
    name: spec.name,
    sizeBytes: spec.sizeBytes,
    content: spec.content,
    accessModes: spec.accessModes,
    provisioning: spec.provisioning,
    parameters: spec.parameters,
    blockSizeBytes,
    createdAt: new Date().toISOString(),
    ...(source === undefined ? {} : { source }),
    ...(spec.mutableParameters === undefined ? {} : { mutableParameters: spec.mutableParameters }),
    ...(spec.undeleteSeconds === undefined ? {} : { undeleteSeconds: spec.undeleteSeconds }),
    ...(spec.ephemeral === undefined ? {} : { ephemeral: spec.ephemeral }),
    ...(encryption === undefined ? {} : { encryption }),
  };
}
