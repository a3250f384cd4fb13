import type * as wire from '../../csi/generated/types.ts';
import type { Draft } from '../../csi/handler.ts';
import { parseCapability } from '../../csi/parse.ts';
import { shortMessage } from '../../csi/short-message.ts';
import type { FoundVolume } from '../../pool/pools.ts';
import { contextOf, ownContext } from '../../pool/volume-context.ts';
import { excess, type VolumeCapability } from '../../volume/capability.ts';
import { InvalidArgument } from '../../volume/errors.ts';
import { defaultLayout } from '../../volume/layout.ts';
import type { VolumeRecord } from '../../volume/record.ts';
import { parseMutable, parseMutableParameters, parseParameters } from './parameters.ts';

/** The answer is "no", which is no error of the caller (VC05). */
class Unsupported extends InvalidArgument {}

/** The uses of a volume that a caller asks about. */
export interface Uses {
  readonly capabilities: readonly VolumeCapability[];
  /** The reason why no volume of ours can be used so. */
  readonly unsupported: string | undefined;
}

/** @throws InvalidArgument for a malformed capability (L13, L14) */
export function parseUses(capabilities: readonly wire.VolumeCapability[]): Uses {
  const parsed: VolumeCapability[] = [];
  let unsupported: string | undefined;
  for (const capability of capabilities) {
    try {
      parsed.push(parseCapability(capability, (message) => new Unsupported(message)));
    } catch (error) {
      if (!(error instanceof Unsupported)) throw error;
      unsupported ??= error.message;
    }
  }
  return { capabilities: parsed, unsupported };
}

/**
 * Checks every property that the request names against the volume. Confirmed fields are echoed; the caller compares
 * (VC06).
 */
export function validate(
  volume: FoundVolume,
  { capabilities, unsupported }: Uses,
  request: wire.ValidateVolumeCapabilitiesRequest,
): Draft<wire.ValidateVolumeCapabilitiesResponse> {
  const { volume_capabilities, volume_context, parameters, mutable_parameters } = request;
  const reason =
    unsupported ??
    capabilities.map((each) => excess(volume.record, each)).find((found) => found !== undefined) ??
    contextMismatch(volume, volume_context) ??
    whyNotParameters(volume, parameters) ??
    whyNotMutable(volume.record, mutable_parameters);
  if (reason !== undefined) return { message: shortMessage(reason) };
  return { confirmed: { volume_capabilities, volume_context, parameters, mutable_parameters } };
}

/** The context is that of CreateVolume, or the caller leaves it out. */
export function contextMismatch(
  { pool, record }: FoundVolume,
  context: Readonly<Record<string, string>>,
): string | undefined {
  const made = contextOf(pool, record);
  const different = Object.entries(ownContext(context)).find(([key, value]) => made[key] !== value);
  if (different === undefined) return undefined;
  const [key] = different;
  return Object.hasOwn(made, key)
    ? `the volume has another ${JSON.stringify(key)} in its context`
    : `the volume has no ${JSON.stringify(key)} in its context`;
}

/** Parameters may be left out; those that are present must match the volume's original or current ones (VC07). */
function whyNotParameters(
  { pool, record }: FoundVolume,
  parameters: Readonly<Record<string, string>>,
): string | undefined {
  return reasonIn(() => {
    const own = pool.traits.parameters ?? [];
    const asked = parseParameters(parameters, own);
    const different = own.find((key) => key in parameters && parameters[key] !== record.parameters[key]);
    if (different !== undefined) return `the volume was made with another ${different}`;
    const made = parseMutable(record.parameters);
    const isThere = asked.poolName === pool.name || asked.poolName === record.parameters['pool'];
    if (asked.poolName !== undefined && !isThere) return `the volume is in pool ${pool.name}`;
    if (asked.poolSelector !== undefined && asked.poolSelector.text !== record.parameters['poolSelector']) {
      return 'the volume was made with another poolSelector';
    }
    if ('forgetNodeAfter' in parameters && parameters['forgetNodeAfter'] !== record.parameters['forgetNodeAfter']) {
      return 'the volume was made with another forgetNodeAfter';
    }
    if (asked.layout !== undefined && asked.layout !== (record.parameters['layout'] ?? defaultLayout)) {
      return 'the volume was made with another layout';
    }
    if (asked.wipe !== undefined && asked.wipe !== record.parameters['wipe']) {
      return 'the volume was made with another wipe';
    }
    if ('mkfsOptions' in parameters && asked.mkfsOptions !== (record.parameters['mkfsOptions'] ?? '')) {
      return 'the volume was made with other mkfsOptions';
    }
    if (asked.provisioning !== undefined && asked.provisioning !== made.provisioning) {
      return whyNotMutable(record, { provisioning: asked.provisioning });
    }
    if ('undelete' in parameters && asked.undeleteSeconds !== made.undeleteSeconds) {
      return whyNotMutable(record, { undelete: parameters['undelete'] ?? '' });
    }
    return undefined;
  });
}

/** Mutable parameters that are present must match the current ones (VC07). */
function whyNotMutable(record: VolumeRecord, parameters: Readonly<Record<string, string>>): string | undefined {
  return reasonIn(() => {
    const { provisioning = record.provisioning, undeleteSeconds = record.undeleteSeconds } =
      parseMutableParameters(parameters);
    if (provisioning !== record.provisioning) return `the volume is ${record.provisioning}`;
    return undeleteSeconds === record.undeleteSeconds ? undefined : 'the volume has another undelete';
  });
}

/** Turns the error about invalid parameters into a reason, too. */
function reasonIn(compare: () => string | undefined): string | undefined {
  try {
    return compare();
  } catch (error) {
    if (error instanceof InvalidArgument) return error.message;
    throw error;
  }
}
