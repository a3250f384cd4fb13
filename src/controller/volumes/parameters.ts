import type { VolumeChanges } from '../../pool/pool.ts';
import { didYouMean } from '../../settings/nearest.ts';
import { parseDuration } from '../../volume/duration.ts';
import { type EncryptionType, encryptionTypes, parseEncryption } from '../../volume/encryption.ts';
import { InvalidArgument } from '../../volume/errors.ts';
import { type LabelSelector, parseSelector } from '../../volume/labels.ts';
import { type Layout, layouts } from '../../volume/layout.ts';
import { type Provisioning, provisionings } from '../../volume/record.ts';
import { type WipePolicy, wipePolicies } from '../../volume/wipe-policy.ts';

type Parameters = Readonly<Record<string, string>>;

/** Parameters that can be changed later (ControllerModifyVolume). */
export interface MutableParameters {
  /** undefined: the pool's setting. */
  readonly provisioning: Provisioning | undefined;
  /** undefined: the pool's setting. */
  readonly undeleteSeconds: number | undefined;
}

/** The parameters of a storage class, parsed. undefined: the driver chooses. */
export interface VolumeParameters extends MutableParameters {
  readonly poolName: string | undefined;
  /** The labels that the pool must have; undefined: a pool is named, or the default pool is used. */
  readonly poolSelector: LabelSelector | undefined;
  /** Not parsed yet: the allowed options depend on the filesystem. */
  readonly mkfsOptions: string;
  /** For the controller of many nodes, which reads it in the class; it changes nothing about the volume. */
  readonly forgetNodeSeconds: number | undefined;
  /** undefined: none. */
  readonly encryption: EncryptionType | undefined;
  /** undefined: linear. */
  readonly layout: Layout | undefined;
  /** undefined: the setting of the pool, or of the source. */
  readonly wipe: WipePolicy | undefined;
}

/** Parameters that a pool may not support, or that change the space that a volume takes there. */
export type Placement = Pick<VolumeParameters, 'encryption' | 'layout' | 'provisioning' | 'wipe'>;

const mutableKeys = ['provisioning', 'undelete'] as const;
export const parameterKeys = [
  'encryption',
  'forgetNodeAfter',
  'layout',
  'mkfsOptions',
  'pool',
  'poolSelector',
  'wipe',
  ...mutableKeys,
] as const;

/** Prefix of the keys that Kubernetes' sidecars add (e.g. the claim's name): kept in the record, never acted upon. */
const kubernetesPrefix = 'csi.storage.k8s.io/';

/** Kubernetes names the filesystem by its own key. Inline volumes, and other drivers, use these names. */
const filesystemKey = `${kubernetesPrefix}fstype`;
const filesystemWords = /^(fs-?type|filesystem)$/i;

/** The names of parameters that only some kinds of pool have. */
export function ownNamesIn(parameters: Parameters): string[] {
  const isCommon = (key: string) => key.startsWith(kubernetesPrefix) || parameterKeys.some((known) => known === key);
  return Object.keys(parameters).filter((key) => !isCommon(key));
}

/**
 * @param own parameters of the kinds of pool that there are
 * @throws InvalidArgument for an unknown parameter or an invalid value (CV10)
 */
export function parseParameters(parameters: Parameters, own: readonly string[] = []): VolumeParameters {
  const known = [...parameterKeys, ...own];
  refuseUnknown(parameters, 'parameter', known, (key) => hintAt(key, known));
  const { pool: poolName, poolSelector } = parameters;
  if (poolName !== undefined && poolSelector !== undefined) {
    throw new InvalidArgument('Parameters pool and poolSelector exclude each other: leave one of them out.');
  }
  return {
    poolName,
    poolSelector: parseNamed('poolSelector', poolSelector, parseSelector),
    mkfsOptions: parameters['mkfsOptions'] ?? '',
    forgetNodeSeconds: parseForgetting(parameters),
    encryption: parseEncryption('Parameter', parameters['encryption']),
    layout: parseOneOf('layout', parameters['layout'], layouts),
    wipe: parseOneOf('wipe', parameters['wipe'], wipePolicies),
    ...parseMutable(parameters),
  };
}

/**
 * Returns the parameters of a class that decide where its volumes lie, and the space that they take there. Mistakes in
 * the class are ignored here: they are the same on every node. If this failed, the scheduler would find no room for it
 * anywhere, and the user would not see why pods wait; CreateVolume reports the mistake in an event of the claim.
 */
export function parsePlacement(
  parameters: Parameters,
): Placement & Pick<VolumeParameters, 'poolName' | 'poolSelector'> {
  return {
    poolName: parameters['pool'],
    poolSelector: knownSelector(parameters['poolSelector']),
    provisioning: knownProvisioning(parameters['provisioning']),
    encryption: encryptionTypes.find((type) => type === parameters['encryption']),
    layout: layouts.find((layout) => layout === parameters['layout']),
    wipe: wipePolicies.find((policy) => policy === parameters['wipe']),
  };
}

/** The minimum: a node may be repaired, or replaced under its name, in less time. */
const minForgetSeconds = 86_400;

/**
 * Returns the time after which the deletion of a volume succeeds although its node is gone; undefined: never
 * automatically.
 * @throws InvalidArgument
 */
export function parseForgetting(parameters: Parameters): number | undefined {
  const seconds = parseNamed('forgetNodeAfter', parameters['forgetNodeAfter'], parseDuration);
  if (seconds === undefined || seconds >= minForgetSeconds) return seconds;
  throw new InvalidArgument(
    `Parameter forgetNodeAfter is ${JSON.stringify(parameters['forgetNodeAfter'])}; it can be 1d or more.`,
  );
}

/** Parses the mutable ones among these parameters and ignores the others. @throws InvalidArgument */
export function parseMutable(parameters: Parameters): MutableParameters {
  const { provisioning, undeleteSeconds } = parseChanges(parameters);
  return { provisioning, undeleteSeconds };
}

/**
 * Returns the changes that mutable_parameters ask for. All are checked before any is applied (MV06); properties that
 * are not named stay the same (MV07).
 * @throws InvalidArgument for an unknown parameter or an invalid value (MV03, CV12)
 */
export function parseMutableParameters(parameters: Parameters): VolumeChanges {
  refuseUnknown(parameters, 'mutable parameter', mutableKeys);
  return parseChanges(parameters);
}

/**
 * Accepts deletionPolicy, since Kubernetes' own tests write a class's deletionPolicy among its parameters as well. It
 * has no effect: every class must have the field of that name, which Kubernetes uses.
 * @throws InvalidArgument: snapshots have no parameters of ours (CS12, GR04)
 */
export function checkSnapshotParameters({ deletionPolicy, ...parameters }: Parameters): void {
  refuseUnknown(parameters, 'parameter', []);
  if (deletionPolicy === undefined || ['Delete', 'Retain'].includes(deletionPolicy)) return;
  throw new InvalidArgument(
    `Parameter deletionPolicy is ${JSON.stringify(deletionPolicy)}; it can be Delete or Retain, and the class's own field decides.`,
  );
}

/** Sorts the parameters, whose order on the wire has no meaning. */
export function sortedParameters(parameters: Parameters): Record<string, string> {
  return Object.fromEntries(Object.entries(parameters).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Suggests the key that was most likely meant. */
function hintAt(key: string, known: readonly string[]): string {
  return filesystemWords.test(key) ? ` (did you mean '${filesystemKey}'?)` : didYouMean(key, known);
}

function refuseUnknown(
  parameters: Parameters,
  what: string,
  known: readonly string[],
  hint = (key: string) => didYouMean(key, known),
): void {
  for (const key of Object.keys(parameters)) {
    if (key.startsWith(kubernetesPrefix) || known.includes(key)) continue;
    const choice = known.length === 0 ? 'there are none' : `known are ${known.join(', ')}${hint(key)}`;
    throw new InvalidArgument(`Unknown ${what} ${JSON.stringify(key)}; ${choice}.`);
  }
}

function parseChanges(parameters: Parameters): VolumeChanges {
  return {
    provisioning: parseProvisioning(parameters['provisioning']),
    undeleteSeconds: parseNamed('undelete', parameters['undelete'], parseDuration),
  };
}

function parseProvisioning(text: string | undefined): Provisioning | undefined {
  if (text === undefined) return undefined;
  const provisioning = knownProvisioning(text);
  if (provisioning === undefined) {
    throw new InvalidArgument(
      `Parameter provisioning is ${JSON.stringify(text)}; it can be ${provisionings.join(' or ')}${didYouMean(text, provisionings)}.`,
    );
  }
  return provisioning;
}

function parseOneOf<T extends string>(name: string, text: string | undefined, known: readonly T[]): T | undefined {
  const found = known.find((each) => each === text);
  if (text === undefined || found !== undefined) return found;
  throw new InvalidArgument(
    `Parameter ${name} is ${JSON.stringify(text)}; it can be ${known.join(', ')}${didYouMean(text, known)}.`,
  );
}

function knownProvisioning(text: string | undefined): Provisioning | undefined {
  return provisionings.find((known) => known === text);
}

/** undefined: no selector, or one that cannot be parsed. */
function knownSelector(text: string | undefined): LabelSelector | undefined {
  try {
    return text === undefined ? undefined : parseSelector(text);
  } catch (error) {
    if (error instanceof InvalidArgument) return undefined;
    throw error;
  }
}

/** @throws InvalidArgument that names the parameter */
function parseNamed<T>(name: string, text: string | undefined, parse: (text: string) => T): T | undefined {
  if (text === undefined) return undefined;
  try {
    return parse(text);
  } catch (error) {
    if (error instanceof InvalidArgument) throw new InvalidArgument(`Parameter ${name}: ${error.message}`);
    throw error;
  }
}
