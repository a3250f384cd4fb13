import type * as wire from '../csi/generated/types.ts';
import type { Draft } from '../csi/handler.ts';
import { parseCapability } from '../csi/parse.ts';
import type { FoundVolume } from '../pool/pools.ts';
import { type Access, mismatch } from '../volume/capability.ts';
import { InvalidArgument } from '../volume/errors.ts';
import { parseParameters } from './parameters.ts';
import { shortMessage } from './present.ts';

/** The answer is no; that is no error of the caller (VC05). */
class Unsupported extends InvalidArgument {}

/** Keys that Kubernetes puts into a volume's context by itself (ST11). */
const kubernetesContextKeys = /^(csi\.storage\.k8s\.io\/|storage\.kubernetes\.io\/csiProvisionerIdentity$)/;

/** What a caller wants to do with a volume. */
export interface Uses {
  readonly accesses: readonly Access[];
  /** What no volume of ours can do. */
  readonly unsupported: string | undefined;
}

/** @throws InvalidArgument for a capability that is wrong in itself (L13, L14) */
export function parseUses(capabilities: readonly wire.VolumeCapability[]): Uses {
  const accesses: Access[] = [];
  let unsupported: string | undefined;
  for (const capability of capabilities) {
    try {
      accesses.push(parseCapability(capability, (message) => new Unsupported(message)).access);
    } catch (error) {
      if (!(error instanceof Unsupported)) throw error;
      unsupported ??= error.message;
    }
  }
  return { accesses, unsupported };
}

/**
 * Whether the volume is all that the request says of it. What is confirmed is echoed, field by field; the caller
 * compares (VC06).
 */
export function validate(
  volume: FoundVolume,
  { accesses, unsupported }: Uses,
  request: wire.ValidateVolumeCapabilitiesRequest,
): Draft<wire.ValidateVolumeCapabilitiesResponse> {
  const { volume_capabilities, volume_context, parameters, mutable_parameters } = request;
  const reason =
    unsupported ??
    accesses.map((access) => mismatch(volume.record.content, access)).find((found) => found !== undefined) ??
    whyNotContext(volume_context) ??
    whyNotParameters(volume, parameters) ??
    (Object.keys(mutable_parameters).length > 0 ? 'mutable_parameters are not supported' : undefined);
  if (reason !== undefined) return { message: shortMessage(reason) };
  return { confirmed: { volume_capabilities, volume_context, parameters } };
}

/** Our volumes have an empty context. */
function whyNotContext(context: Readonly<Record<string, string>>): string | undefined {
  const foreign = Object.keys(context).find((key) => !kubernetesContextKeys.test(key));
  return foreign === undefined ? undefined : `the volume has no ${JSON.stringify(foreign)} in its context`;
}

/** Parameters may be left out; those that are there must be what the volume was made with (VC07). */
function whyNotParameters(
  { pool, record }: FoundVolume,
  parameters: Readonly<Record<string, string>>,
): string | undefined {
  try {
    const asked = parseParameters(parameters);
    if (asked.poolName !== undefined && asked.poolName !== pool.name) return `the volume is in pool ${pool.name}`;
    if ('provisioning' in parameters && asked.provisioning !== record.provisioning) {
      return `the volume is ${record.provisioning}`;
    }
    if ('mkfsOptions' in parameters && asked.mkfsOptions !== (record.parameters['mkfsOptions'] ?? '')) {
      return 'the volume was made with other mkfsOptions';
    }
    return undefined;
  } catch (error) {
    if (error instanceof InvalidArgument) return error.message;
    throw error;
  }
}
