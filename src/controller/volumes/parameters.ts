import type { VolumeChanges } from '../../pool/pool.ts';
import { didYouMean } from '../../settings/nearest.ts';
import { parseDuration } from '../../volume/duration.ts';
import { type EncryptionType, encryptionTypes } from '../../volume/encryption.ts';
import { InvalidArgument } from '../../volume/errors.ts';
import { type LabelSelector, parseSelector } from '../../volume/labels.ts';
import { type Layout, layouts } from '../../volume/layout.ts';
import { type Provisioning, provisionings } from '../../volume/record.ts';
import { type WipePolicy, wipePolicies } from '../../volume/wipe-policy.ts';

type Parameters = Readonly<Record<string, string>>;

/** What may be changed later (ControllerModifyVolume), as it was asked for. */
export interface MutableParameters {
  /** undefined: as the pool has it. */
  readonly provisioning: Provisioning | undefined;
  /** undefined: as the pool has it. */
  readonly undeleteSeconds: number | undefined;
}

/** The parameters of a storage class, parsed. What stands in `undefined` is left to us. */
export interface VolumeParameters extends MutableParameters {
  readonly poolName: string | undefined;
  /** What its pool must be like; undefined: a pool is named, or it is the default one. */
  readonly poolSelector: LabelSelector | undefined;
  /** Not parsed yet: what is allowed depends on the filesystem. */
  readonly mkfsOptions: string;
  /** For the controller of many nodes, which reads it in the class; a volume is made the same with any. */
  readonly forgetNodeSeconds: number | undefined;
  /** undefined: none. */
  readonly encryption: EncryptionType | undefined;
  /** undefined: linear. */
  readonly layout: Layout | undefined;
  /** undefined: as the pool has it, or as what it is made from. */
  readonly wipe: WipePolicy | undefined;
}

/** What of a class a pool may not have, or that changes what a volume takes there. */
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

/** Kubernetes' sidecars add keys with this prefix (the claim's name, say): kept in the record, never acted upon. */
const kubernetesPrefix = 'csi.storage.k8s.io/';

/** Kubernetes asks for the filesystem by a key of its own. Inline volumes, and other drivers, have it under these names. */
const filesystemKey = `${kubernetesPrefix}fstype`;
const filesystemWords = /^(fs-?type|filesystem)$/i;

/** @throws InvalidArgument for an unknown parameter or a value that cannot be (CV10) */
export function parseParameters(parameters: Parameters): VolumeParameters {
  refuseUnknown(parameters, 'parameter', parameterKeys, hintAt);
  const { pool: poolName, poolSelector } = parameters;
  if (poolName !== undefined && poolSelector !== undefined) {
    throw new InvalidArgument(
      'Parameters pool and poolSelector: name the pool, or say what it must be like, not both.',
    );
  }
  return {
    poolName,
    poolSelector: parseNamed('poolSelector', poolSelector, parseSelector),
    mkfsOptions: parameters['mkfsOptions'] ?? '',
    forgetNodeSeconds: parseForgetting(parameters),
    encryption: parseEncryption(parameters['encryption']),
    layout: parseOneOf('layout', parameters['layout'], layouts),
    wipe: parseOneOf('wipe', parameters['wipe'], wipePolicies),
    ...parseMutable(parameters),
  };
}

/**
 * What of a class says where its volumes lie, and what they take there. What is wrong with the class is no matter here:
 * it is wrong on every node. Without an answer the scheduler would find no room for it anywhere, and nobody would read why
 * pods wait; CreateVolume says it in an event of the claim.
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

/** In less, a node is repaired, or made anew under its name. */
const leastForgetSeconds = 86_400;

/**
 * After how long the deletion of a volume is answered although its node is gone; undefined: never by itself.
 * @throws InvalidArgument
 */
export function parseForgetting(parameters: Parameters): number | undefined {
  const seconds = parseNamed('forgetNodeAfter', parameters['forgetNodeAfter'], parseDuration);
  if (seconds === undefined || seconds >= leastForgetSeconds) return seconds;
  throw new InvalidArgument(
    `Parameter forgetNodeAfter is ${JSON.stringify(parameters['forgetNodeAfter'])}; it can be 1d or more.`,
  );
}

/** What the mutable ones among these parameters ask for; the others are not looked at. @throws InvalidArgument */
export function parseMutable(parameters: Parameters): MutableParameters {
  const { provisioning, undeleteSeconds } = parseChanges(parameters);
  return { provisioning, undeleteSeconds };
}

/**
 * What mutable_parameters change. All of them are checked before anything is done (MV06); what is not named stays as it
 * is (MV07).
 * @throws InvalidArgument for an unknown one or a value that cannot be (MV03, CV12)
 */
export function parseMutableParameters(parameters: Parameters): VolumeChanges {
  refuseUnknown(parameters, 'mutable parameter', mutableKeys);
  return parseChanges(parameters);
}

/**
 * Kubernetes' own tests write a class's deletionPolicy among its parameters as well. It is let pass: every class must have
 * the field of that name, and that is what Kubernetes goes by.
 * @throws InvalidArgument: snapshots have no parameters of ours (CS12, GR04)
 */
export function checkSnapshotParameters({ deletionPolicy, ...parameters }: Parameters): void {
  refuseUnknown(parameters, 'parameter', []);
  if (deletionPolicy === undefined || ['Delete', 'Retain'].includes(deletionPolicy)) return;
  throw new InvalidArgument(
    `Parameter deletionPolicy is ${JSON.stringify(deletionPolicy)}; it can be Delete or Retain, and the class's own field decides.`,
  );
}

/** The same parameters in one order, whatever order they had on the wire. */
export function sortedParameters(parameters: Parameters): Record<string, string> {
  return Object.fromEntries(Object.entries(parameters).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** What of a class was most likely meant. */
function hintAt(key: string): string {
  return filesystemWords.test(key) ? ` (did you mean '${filesystemKey}'?)` : didYouMean(key, parameterKeys);
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

export function parseEncryption(text: string | undefined): EncryptionType | undefined {
  if (text === undefined || text === 'none') return undefined;
  const type = encryptionTypes.find((known) => known === text);
  if (type !== undefined) return type;
  throw new InvalidArgument(
    `Parameter encryption is ${JSON.stringify(text)}; it can be ${encryptionTypes.join(', ')} or none.`,
  );
}

function knownProvisioning(text: string | undefined): Provisioning | undefined {
  return provisionings.find((known) => known === text);
}

/** undefined: there is none that can be understood. */
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
