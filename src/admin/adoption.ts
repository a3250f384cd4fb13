import { removeMoved } from '../move/removal.ts';
import { type Pool, volumeIdIn } from '../pool/pool.ts';
import type { FoundVolume } from '../pool/pools.ts';
import { type Claim, claimParameters } from '../volume/claim.ts';
import { AlreadyExists } from '../volume/errors.ts';
import { volumeNameKey } from '../volume/flow/object-queue.ts';
import type { VolumeId } from '../volume/id.ts';
import type { VolumeRecord } from '../volume/record.ts';
import type { Adopted, Released } from './protocol.ts';
import type { AdminCall, AdminServiceOptions } from './service.ts';

/** Asks to adopt the data at a path as the volume of a claim. */
export interface AdoptionRequest {
  readonly path: string;
  readonly pool: string;
  readonly namespace: string;
  /** The claim's name. */
  readonly claim: string;
  /** The volume's name; default: derived from the claim. */
  readonly name?: string | undefined;
  readonly sizeBytes?: bigint | undefined;
}

/** Succeeds also if the data was adopted before: a caller that missed the answer asks again. */
export async function adopt(options: AdminServiceOptions, request: AdoptionRequest, call: AdminCall): Promise<Adopted> {
  const { mover, nodeId, objects, pools } = options;
  const { path } = request;
  const claim = { namespace: request.namespace, name: request.claim };
  const name = request.name ?? nameFor(claim);
  const pool = pools.get(request.pool);
  const id = volumeIdIn(pool, nodeId, name);
  call.note({ pool: pool.name, volume_id: id, path });
  const fingerprint = JSON.stringify({ ...request, sizeBytes: request.sizeBytes?.toString() });
  return objects.run(volumeNameKey(name), 'adopt', fingerprint, () =>
    objects.claim([{ object: id }], 'adopt', async () => {
      const existing = await findByName(options, name);
      if (existing === undefined) await mover?.wanted(id);
      const record =
        existing === undefined
          ? await pool.adopt({
              ...{ id, name, path, sizeBytes: request.sizeBytes },
              accessModes: [pool.cluster === undefined ? 'SINGLE_NODE_MULTI_WRITER' : 'MULTI_NODE_MULTI_WRITER'],
              parameters: claimParameters(claim),
            })
          : requireAdopted(existing, pool, request);
      return { id, name, pool: pool.name, path, sizeBytes: record.sizeBytes.toString() };
    }),
  );
}

export async function release(
  { mover, objects, pools }: AdminServiceOptions,
  { id, to }: { readonly id: VolumeId; readonly to?: string | undefined },
  call: AdminCall,
): Promise<Released> {
  return objects.run(id, 'release', to ?? '', async () => {
    const { pool } = await pools.require(id);
    const path = await removeMoved(mover, id, () => pool.release(id, to));
    call.note({ pool: pool.name, path });
    return { id, pool: pool.name, path };
  });
}

/** A namespace contains no dot, so no two claims have the same name. */
function nameFor({ name, namespace }: Claim): string {
  return `adopted.${namespace}.${name}`;
}

/** Searches all pools, as CreateVolume does: a name is unique over all of them. */
async function findByName({ nodeId, pools }: AdminServiceOptions, name: string): Promise<FoundVolume | undefined> {
  for (const pool of pools.known()) {
    const record = await pool.find(volumeIdIn(pool, nodeId, name));
    if (record !== undefined) return { pool, record };
  }
  return undefined;
}

/** @throws AlreadyExists if the volume with that name does not match the request */
function requireAdopted(
  { pool: itsPool, record }: FoundVolume,
  pool: Pool,
  { path, sizeBytes = record.sizeBytes }: AdoptionRequest,
): VolumeRecord {
  const isTheSame = itsPool === pool && record.adopted?.path === path && record.sizeBytes >= sizeBytes;
  if (isTheSame) return record;
  const from = record.adopted === undefined ? '' : `, adopted from ${record.adopted.path}`;
  throw new AlreadyExists(
    `volume ${record.id} in pool ${itsPool.name} has the name ${JSON.stringify(record.name)} already${from}. Choose another (--name).`,
  );
}
