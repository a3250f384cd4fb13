import type { ControllerHandlers } from '../csi/generated/types.ts';
import { parseCapacityRange } from '../csi/parse.ts';
import { deleteMoved, findDeleted } from '../move/removal.ts';
import { sizeMultiple } from '../pool/pool.ts';
import { fingerprint } from '../volume/flow/object-queue.ts';
import { parseVolumeId } from '../volume/id.ts';
import { controllerCapabilities } from './capabilities.ts';
import type { ControllerContext } from './context.ts';
import { requireVolumeId } from './find.ts';
import { parsePageRequest } from './listing/page.ts';
import { listVolumes, volumeById } from './listing/status.ts';
import { presentVolume } from './present.ts';
import { mayBeProvided } from './publication/provided.ts';
import { publishHandlers, refusePublished } from './publication/publish.ts';
import { parseVolumeRequest } from './request.ts';
import { snapshotHandlers } from './snapshots/snapshots.ts';
import { capacityFor } from './volumes/capacity.ts';
import { parseUse, requireUse, targetSize } from './volumes/expand.ts';
import { modifyVolume } from './volumes/modify.ts';
import { createVolume } from './volumes/provision.ts';
import { parseUses, validate } from './volumes/validate.ts';

/** The Controller service of one node, for the volumes in its pools. */
export function controllerService(controller: ControllerContext): ControllerHandlers {
  const { topology: here, pools, objects, attach, expansion, moves } = controller;
  return {
    async CreateVolume(request, context) {
      const volume = await createVolume(controller, parseVolumeRequest(request, controller.ownParameters));
      context.note({ volume_id: volume.record.id, pool: volume.pool.name });
      return { volume: presentVolume(volume, here) };
    },

    async DeleteVolume(request, context) {
      const id = parseVolumeId(request.volume_id);
      // No volume of ours has such an id, so there is nothing to delete (DV02).
      if (id === undefined) return {};
      return objects.run(id, 'DeleteVolume', '', async () => {
        await moves?.requireNotComing(id);
        const found = await findDeleted(pools, moves, id);
        if (found === undefined) {
          // Removes a copy for this volume that an interrupted first try left for the next one (T02).
          for (const pool of pools.all()) await pool.remove(id);
          await moves?.forgetDeleted(id);
          return {};
        }
        context.note({ pool: found.pool.name });
        refusePublished(controller, found.record);
        await deleteMoved(moves, id, () => found.pool.remove(id));
        return {};
      });
    },

    async ValidateVolumeCapabilities(request, context) {
      const uses = parseUses(request.volume_capabilities);
      const volume = await pools.require(requireVolumeId(request.volume_id));
      context.note({ pool: volume.pool.name });
      return validate(volume, uses, request);
    },

    async ControllerGetVolume(request) {
      return volumeById(controller, requireVolumeId(request.volume_id));
    },

    async ListVolumes(request) {
      return listVolumes(controller, parsePageRequest(request.starting_token, request.max_entries, parseVolumeId));
    },

    async GetCapacity(request) {
      return capacityFor(controller, request);
    },

    async ControllerGetCapabilities() {
      return { capabilities: controllerCapabilities(controller) };
    },

    ControllerModifyVolume: modifyVolume(controller),
    ...snapshotHandlers(controller),
    ...(attach === 'required' && publishHandlers(controller)),
    ...(expansion === 'controller' && { ControllerExpandVolume: expandVolume(controller) }),
  };
}

/** Grows the volume and its device. The node grows the filesystem, also while published (CE10). */
function expandVolume(controller: ControllerContext): ControllerHandlers['ControllerExpandVolume'] {
  const { objects, pools } = controller;
  return async ({ volume_id, capacity_range, volume_capability }, context) => {
    const range = parseCapacityRange(capacity_range);
    const use = parseUse(volume_capability);
    // The node asks the server how large the volume is, and refuses a size that it does not have.
    if (mayBeProvided(controller, volume_id))
      return { capacity_bytes: range?.requiredBytes ?? range?.limitBytes ?? 0n, node_expansion_required: true };
    const id = requireVolumeId(volume_id);
    return objects.run(id, 'ControllerExpandVolume', fingerprint({ range, use }), async () => {
      const { pool, record } = await pools.require(id);
      context.note({ pool: pool.name });
      requireUse(record, use);
      const { sizeBytes, content } = await pool.grow(
        id,
        targetSize(record, range, sizeMultiple(pool.traits, record.encryption?.type)),
      );
      // true also on a replay: growing a filesystem that has its full size already does no harm (CE09).
      return { capacity_bytes: sizeBytes, node_expansion_required: content.type === 'mount' };
    });
  };
}
