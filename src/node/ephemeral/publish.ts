import { randomBytes } from 'node:crypto';
import { defaultProvisioning, type Pool, sizeMultiple, type VolumeSpec, whyNotModes } from '../../pool/pool.ts';
import { FailedPrecondition, InvalidArgument } from '../../volume/errors.ts';
import { filesystemTraits } from '../../volume/filesystem.ts';
import { Secrets } from '../../volume/secrets.ts';
import { chooseSize, defaultVolumeBytes, formatBytes, smaller } from '../../volume/size.ts';
import type { InlineContext, NodeContext } from '../context.ts';
import { missingParent } from '../mount/bind-target.ts';
import { completeAttributes } from '../mount-options.ts';
import type { Notes } from '../notes.ts';
import { identify, LazyMountTable } from '../path/observe.ts';
import { openHandle, openPlace } from '../path/path-handle.ts';
import { planEphemeral } from '../plan.ts';
import type { EphemeralAttributes } from './attributes.ts';
import { makeAt } from './make.ts';
import { type EphemeralRequest, isSameRequest } from './request.ts';

/**
 * NodePublishVolume of a pod's inline volume: it is made, filled and mounted in one call. A volume that is mounted is
 * complete; one that is not was left by a crash or a reboot, and is made again.
 */
export async function publishEphemeral(
  context: NodeContext,
  { lateRemovals, maxInlineSizeBytes, pools }: InlineContext,
  request: EphemeralRequest,
): Promise<void> {
  const { attributes, demand, isReadonly, target, volumeId } = request;
  const pool = pools.get(attributes.poolName ?? pools.defaultName);
  const unfit = whyNotModes(pool.traits, [demand.capability.mode]);
  if (unfit !== undefined) throw new FailedPrecondition(`volume ${volumeId}: ${unfit}.`);
  const notes = await context.notes();
  using place = await openPlace(context.queue, target);
  if (place === undefined) throw missingParent(target.path);
  using handle = await openHandle(context.queue, place);
  const { occupant } = await identify(context, new LazyMountTable(context.queue), handle, volumeId);
  const existing = await pools.findEphemeral(volumeId);
  const wanted = {
    access: 'mount',
    attributes: completeAttributes({ ...demand.options.attributes, readonly: isReadonly }),
  } as const;
  const isSame = existing !== undefined && isSameRequest(existing, request, notes);
  const plan = planEphemeral({
    volumeId,
    path: target.path,
    wanted,
    at: occupant,
    noted: isSame ? 'same' : 'different',
  });
  if (plan === 'nothing') return;
  // Not before: one that is mounted may have been made when more was allowed.
  const sizeBytes = allowedSize(attributes, maxInlineSizeBytes);
  // Refused if it is in use: then it is mounted at another target, or still open elsewhere.
  if (existing !== undefined) await existing.pool.remove(volumeId);
  lateRemovals.drop(volumeId);
  await makeAt(context.queue, pool, specFor(request, { pool, notes, sizeBytes }), {
    place,
    handle,
    attributes: wanted.attributes,
    parameters: demand.options.parameters,
    source: attributes.source,
  });
}

/** @throws InvalidArgument */
function allowedSize({ sizeBytes }: EphemeralAttributes, maxBytes: bigint | undefined): bigint {
  if (maxBytes === undefined) return sizeBytes ?? defaultVolumeBytes;
  if (sizeBytes === undefined) return smaller(defaultVolumeBytes, maxBytes);
  if (sizeBytes <= maxBytes) return sizeBytes;
  throw new InvalidArgument(
    `Volume attribute size: ask for at most ${formatBytes(maxBytes)}, not ${formatBytes(sizeBytes)}. It is what maxInlineSize of this node allows inline volumes.`,
  );
}

interface SpecParts {
  readonly pool: Pool;
  readonly notes: Notes;
  readonly sizeBytes: bigint;
}

function specFor(request: EphemeralRequest, { notes, pool, sizeBytes: requiredBytes }: SpecParts): VolumeSpec {
  const { attributes, demand, handle, volumeId } = request;
  const { capability } = demand;
  const fsType = request.fsType ?? pool.defaultFilesystem;
  const { filesystems } = pool.traits;
  if (filesystems.length === 0) {
    throw new InvalidArgument(`Pool ${pool.name} has no inline volumes: they need a filesystem for each volume.`);
  }
  if (!filesystems.includes(fsType)) {
    throw new InvalidArgument(`Pool ${pool.name} has no ${fsType}, only ${filesystems.join(', ')}.`);
  }
  if (attributes.encryption !== undefined && !pool.traits.encryption?.includes(attributes.encryption)) {
    throw new InvalidArgument(`Pool ${pool.name} has no volumes with encryption ${attributes.encryption}.`);
  }
  const content = { type: 'mount', fsType } as const;
  return {
    id: volumeId,
    name: handle,
    sizeBytes: chooseSize(
      { requiredBytes, limitBytes: undefined },
      filesystemTraits[fsType].minimumBytes,
      sizeMultiple(pool.traits, attributes.encryption),
    ),
    content,
    accessModes: [capability.mode],
    provisioning: defaultProvisioning(pool.traits),
    mkfsArguments: [],
    parameters: request.parameters,
    // It is never kept in the trash, whatever the pool does for other volumes.
    undeleteSeconds: 0,
    ephemeral: { handle, digest: notes.digest(capability, content) },
    encryption: attributes.encryption,
    // It is never opened a second time, so its key need not be known.
    secrets: new Secrets({ key: randomBytes(32).toString('base64') }),
  };
}
