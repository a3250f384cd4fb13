import { claimOf } from '../../volume/claim.ts';
import { AlreadyExists, FailedPrecondition, InvalidArgument, NotFound } from '../../volume/errors.ts';
import type { VolumeRecord } from '../../volume/record.ts';
import { chooseSize, defaultVolumeBytes, formatBytes, larger, roundUp } from '../../volume/size.ts';
import type { Adoptable, Adoption, Extras } from '../backend.ts';
import type { AdoptionSpec } from '../pool.ts';
import { explainFull } from './full.ts';
import { refuseInUse } from './in-use.ts';
import type { CatalogParts } from './parts.ts';

/** Turns existing data in the pool's storage into volumes, and volumes back into that. */
export class Adoptions {
  readonly #parts: CatalogParts;

  constructor(parts: CatalogParts) {
    this.#parts = parts;
  }

  async adopt(spec: AdoptionSpec): Promise<VolumeRecord> {
    const { generations, index, name, space, unsettled } = this.#parts;
    const { id, path } = spec;
    if (index.get(id) !== undefined) throw new AlreadyExists(`volume ${id} exists already.`);
    await generations.refuseMoved(id);
    const adoption = this.#adoption();
    const found = await adoption.examine(path).catch((error) => {
      throw error instanceof NotFound ? (this.#whoHas(path) ?? error) : error;
    });
    const record = recordOf(spec, found);
    // The space of its data is taken already.
    const newBytes = larger(0n, record.sizeBytes - found.usedBytes);
    using _space = newBytes === 0n ? undefined : await space.hold({ newBytes, provisioning: found.provisioning });
    try {
      // An earlier one of that name may have been deleted.
      await generations.forget(id);
      await unsettled.change([id], () => adoption.adopt(found, record));
    } catch (error) {
      throw explainFull(error, name, record.sizeBytes);
    }
    index.put(record);
    return record;
  }

  async release(record: VolumeRecord, path = record.adopted?.path): Promise<string> {
    const { backend, index, trash, unsettled } = this.#parts;
    const { id, publication } = record;
    const adoption = this.#adoption();
    if (path === undefined) {
      throw new InvalidArgument(`volume ${id} was not adopted: say where it is to go (--to PATH).`);
    }
    if (publication !== undefined) {
      throw new FailedPrecondition(`volume ${id} is published to node ${publication.nodeId}: end that first.`);
    }
    await refuseInUse(this.#parts, record);
    await backend.provisioner.verify({ kind: 'volume', record });
    const ref = await unsettled.change([id], () => adoption.release(record, path));
    index.delete(id);
    backend.attacher.forget?.(id);
    trash.destroy(ref);
    await this.#parts.generations.forget(id);
    return path;
  }

  /** @throws FailedPrecondition where the pool has no such thing */
  #adoption(): Adoption {
    const { backend, name } = this.#parts;
    if (backend.extras.adoption !== undefined) return backend.extras.adoption;
    throw adoptsNothing(name, backend);
  }

  /** A path that is not there any more may be a volume by now. */
  #whoHas(path: string): AlreadyExists | undefined {
    const record = [...this.#parts.index.all()].find(({ adopted }) => adopted?.path === path);
    if (record === undefined) return undefined;
    const claim = claimOf(record);
    const whose = claim === undefined ? '' : ` (claim ${claim.namespace}/${claim.name})`;
    return new AlreadyExists(`${path} is volume ${record.id} already${whose}. Undo it: holdfast release ${record.id}.`);
  }
}

export function adoptsNothing(
  poolName: string,
  { extras, kind }: { readonly extras: Pick<Extras, 'noAdoption'>; readonly kind: string },
): FailedPrecondition {
  const why = extras.noAdoption ?? `(${kind}) makes its volumes itself: it adopts and releases none.`;
  return new FailedPrecondition(`pool ${poolName} ${why}`);
}

function recordOf(
  { accessModes, id, name, parameters, path, sizeBytes }: AdoptionSpec,
  found: Adoptable,
): VolumeRecord {
  return {
    id,
    name,
    sizeBytes: sizeFor(found, sizeBytes),
    content: found.content,
    accessModes,
    provisioning: found.provisioning,
    parameters,
    blockSizeBytes: found.blockSizeBytes,
    createdAt: new Date().toISOString(),
    adopted: { path },
  };
}

/** The default size is half as much again as the data takes, in whole GiB. @throws InvalidArgument, OutOfRange */
function sizeFor({ path, sizeBytes: onlyBytes, usedBytes }: Adoptable, wishedBytes: bigint | undefined): bigint {
  if (onlyBytes !== undefined) {
    if (wishedBytes === undefined || wishedBytes === onlyBytes) return onlyBytes;
    throw new InvalidArgument(`${path} has ${onlyBytes} bytes and keeps them: leave out the size.`);
  }
  if (wishedBytes === undefined) return roundUp(larger((usedBytes * 3n) / 2n, 1n), defaultVolumeBytes);
  if (wishedBytes >= usedBytes) return chooseSize({ requiredBytes: wishedBytes, limitBytes: undefined }, 0n);
  throw new InvalidArgument(
    `${path} takes ${formatBytes(usedBytes)}, more than the requested ${formatBytes(wishedBytes)}: choose a larger size.`,
  );
}
