import type { VolumeOnNode } from '../pool/node-side.ts';
import { FailedPrecondition } from '../volume/errors.ts';
import type { NodeContext } from './context.ts';

/** With `attach: required` ControllerPublishVolume comes first. @throws FailedPrecondition */
export function requireAttached({ attachedTo }: NodeContext, { handle: id, publication }: VolumeOnNode): void {
  if (attachedTo === undefined || publication?.nodeId === attachedTo) return;
  throw new FailedPrecondition(
    `volume ${id} is ${publication === undefined ? 'not published to any node' : `published to node ${publication.nodeId}`}, and this is ${attachedTo}: publish it here first (ControllerPublishVolume).`,
  );
}

/** A volume that is published read-only is so for every workload (CP12). */
export function isAttachedReadonly({ attachedTo }: NodeContext, { publication }: VolumeOnNode): boolean {
  return attachedTo !== undefined && publication?.readonly === true;
}
