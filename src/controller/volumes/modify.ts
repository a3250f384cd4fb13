import type { ControllerHandlers } from '../../csi/generated/types.ts';
import { fingerprint } from '../../volume/flow/object-queue.ts';
import type { ControllerContext } from '../context.ts';
import { requireVolumeId } from '../find.ts';
import { parseMutableParameters } from './parameters.ts';
import { requireProvisioning } from './volume-spec.ts';

/** Changes the properties that the mutable parameters name, all or none of them (MV06), and no others (MV07). */
export function modifyVolume({ objects, pools }: ControllerContext) {
  return async function ControllerModifyVolume({ mutable_parameters, volume_id }, context) {
    const changes = parseMutableParameters(mutable_parameters);
    const id = requireVolumeId(volume_id);
    return objects.run(id, 'ControllerModifyVolume', fingerprint(changes), async () => {
      const { pool } = await pools.require(id);
      context.note({ pool: pool.name });
      if (changes.provisioning !== undefined) requireProvisioning(pool, changes.provisioning);
      await pool.modify(id, changes);
      return {};
    });
  } satisfies ControllerHandlers['ControllerModifyVolume'];
}
