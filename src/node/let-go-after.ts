import { explain } from '../kernel/call/explain.ts';
import { Unavailable } from '../volume/errors.ts';
import type { VolumeHandle } from '../volume/handle.ts';
import type { NodeContext } from './context.ts';

/**
 * Lets go of what a call has attached that failed. @returns the error of the call; or Unavailable if something is left: after other
 * codes the kubelet takes the volume for not staged, and sends no unstage.
 */
export async function letGoAfter(
  { volumes }: NodeContext,
  { path, volumeId }: { readonly volumeId: VolumeHandle; readonly path: string },
  error: unknown,
): Promise<unknown> {
  try {
    await volumes.letGo(volumeId, path);
    return error;
  } catch (left) {
    return new Unavailable(`${explain(error)} It could not be undone: ${explain(left)}`, { cause: error });
  }
}
