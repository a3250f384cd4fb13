import { didYouMean } from '../settings/nearest.ts';
import { InvalidArgument } from '../volume/errors.ts';
import type { VolumeRecord } from '../volume/record.ts';
import type { NodeKind, VolumeContext } from './node-side.ts';
import type { Pool } from './pool.ts';

/*
 * volume_context of a volume that every node of the cluster can reach: all that a node knows of it. CreateVolume makes
 * it, and a person writes the same keys as volumeAttributes of a PersistentVolume.
 */

/** The only version there is. A context without one has this: people leave it out. */
const contextVersion = '1';

/** The keys of every context, whatever its kind. */
const commonKeys = ['kind', 'version'] as const;

/** Keys that container orchestrators add (ST11). */
const injectedKey = /^(csi\.storage\.k8s\.io\/|storage\.kubernetes\.io\/csiProvisionerIdentity$)/;

/** The part of a volume's context that is the volume's. */
export function ownContext(context: VolumeContext): VolumeContext {
  return Object.fromEntries(Object.entries(context).filter(([key]) => !injectedKey.test(key)));
}

/** The context of a volume of this pool, the same at all times; empty if it lies on this node. */
export function contextOf({ cluster, kind }: Pick<Pool, 'cluster' | 'kind'>, record: VolumeRecord): VolumeContext {
  return cluster === undefined ? {} : { kind, version: contextVersion, ...cluster.contextOf(record) };
}

/** A context with its kind. */
export interface KindContext {
  readonly kind: NodeKind;
  /** Without `kind` and `version`, and without any key that the kind does not know. */
  readonly context: VolumeContext;
}

/**
 * Finds the kind of a context, and refuses keys that no such volume has: a misspelled one would be ignored otherwise.
 * @param context without the keys of container orchestrators
 * @throws InvalidArgument
 */
export function kindOfContext(context: VolumeContext, kinds: readonly NodeKind[]): KindContext {
  const { kind: name, version = contextVersion, ...rest } = context;
  if (version !== contextVersion) {
    throw new InvalidArgument(
      `volumeAttributes: version is ${JSON.stringify(version)}, and this driver knows ${contextVersion}: update the driver on this node.`,
    );
  }
  const kind = name === undefined ? kindByKeys(rest, kinds) : kindByName(name, kinds);
  const { keyPrefix } = kind;
  const known = [...commonKeys, ...kind.keys, ...(keyPrefix === undefined ? [] : [`${keyPrefix}…`])];
  const isKnown = (key: string) => kind.keys.includes(key) || (keyPrefix !== undefined && key.startsWith(keyPrefix));
  const unknown = Object.keys(rest).find((key) => !isKnown(key));
  if (unknown !== undefined) {
    throw new InvalidArgument(
      `volumeAttributes: no ${kind.name} volume has ${JSON.stringify(unknown)}; known are ${known.join(', ')}${didYouMean(unknown, known)}.`,
    );
  }
  return { kind, context: rest };
}

function kindByName(name: string, kinds: readonly NodeKind[]): NodeKind {
  const found = kinds.find((kind) => kind.name === name);
  if (found !== undefined) return found;
  const names = kinds.map((kind) => kind.name);
  throw new InvalidArgument(
    `volumeAttributes: kind ${JSON.stringify(name)} is not known on this node; there is ${list(names)}${didYouMean(name, names)}.`,
  );
}

/** PersistentVolumes that were written for other drivers name no kind. */
function kindByKeys(context: VolumeContext, kinds: readonly NodeKind[]): NodeKind {
  const fitting = kinds.filter(({ namingKeys }) => namingKeys.every((key) => Object.hasOwn(context, key)));
  const [kind, other] = fitting;
  if (kind !== undefined && other === undefined) return kind;
  const names = (fitting.length === 0 ? kinds : fitting).map(
    ({ name, namingKeys }) => `${name} (${namingKeys.join(', ')})`,
  );
  throw new InvalidArgument(
    `volumeAttributes say not which kind of volume this is: set kind, or the keys of one kind: ${list(names)}.`,
  );
}

function list(names: readonly string[]): string {
  return names.length === 0 ? 'none' : names.join(', ');
}
