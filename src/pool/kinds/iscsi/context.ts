import { z } from 'zod';
import { InvalidArgument } from '../../../volume/errors.ts';
import { parseInput } from '../../../volume/parse-input.ts';
import { type Portal, parsePortals } from '../../network-disk/portals.ts';
import type { VolumeContext } from '../../node-side.ts';
import { normalWwid } from './wwid.ts';

/** The logical unit that a volume is, and how to reach it. */
export interface IscsiContext {
  readonly iqn: string;
  readonly portals: readonly Portal[];
  /** A decimal number. */
  readonly lun: string;
  /** undefined: any, as long as it stays the same while the volume is in use. */
  readonly wwid: string | undefined;
  /** false: never; true: needed; undefined: if the Secret has a name and a password. */
  readonly chap: boolean | undefined;
  readonly replacementTimeoutSeconds: string;
  /** Several portals at once: false: never; true: needed; undefined: if the node has multipathd. */
  readonly multipath: boolean | undefined;
}

const usualPort = '3260';
/** Beyond 256 a number is written in the flat form of SAM-4, up to 14 bits. */
const maxLun = 16383;
/** The kernel gives up a target that is away after this time: then its filesystems fail. */
const usualReplacementTimeout = '1800';

export const iscsiKeys: readonly string[] = [
  ...['iqn', 'portals', 'targetPortal', 'lun', 'wwid', 'replacementTimeout', 'multipath'],
  ...['iscsiInterface', 'sessionCHAPAuth', 'discoveryCHAPAuth'],
];

const flag = z.enum(['true', 'false'], { error: 'must be "true" or "false"' });

const schema = z.strictObject({
  // RFC 3720 3.2.6: at most 223 bytes; a slash would lead to another file of open-iscsi.
  iqn: z.string().regex(/^(iqn|eui|naa)\.[a-z0-9.:-]{1,219}$/, {
    error: 'must be the name of a target in small letters, such as iqn.2026-01.org.example:storage',
  }),
  portals: z.string().optional(),
  targetPortal: z.string().optional(),
  lun: z
    .string()
    .regex(/^(0|[1-9][0-9]{0,4})$/, { error: 'must be a whole number' })
    .refine((text) => Number(text) <= maxLun, { error: `must be at most ${maxLun}` }),
  wwid: z
    .string()
    .refine((text) => normalWwid(text) !== undefined, {
      error: 'must be what /sys/block/sd…/device/wwid shows, such as naa.6001405…',
    })
    .optional(),
  replacementTimeout: z
    .string()
    .regex(/^[1-9][0-9]{0,5}$/, { error: 'must be a whole number of seconds' })
    .optional(),
  multipath: flag.optional(),
  iscsiInterface: z
    .literal('default', { error: 'must be default: the driver uses the software initiator, and its own name in it' })
    .optional(),
  sessionCHAPAuth: flag.optional(),
  // No discovery takes place: the portals are named.
  discoveryCHAPAuth: flag.optional(),
});

/** @throws InvalidArgument that names the key */
export function parseIscsiContext(context: VolumeContext): IscsiContext {
  const parsed = parseInput(schema, { ...context });
  if ('mistakes' in parsed) throw mistake(parsed.mistakes.join('; '));
  const { iqn, lun, multipath, portals, replacementTimeout, sessionCHAPAuth, targetPortal, wwid } = parsed.data;
  return {
    iqn,
    lun,
    portals: portalsOf(targetPortal, portals),
    wwid: wwid === undefined ? undefined : normalWwid(wwid),
    chap: isOn(sessionCHAPAuth),
    multipath: isOn(multipath),
    replacementTimeoutSeconds: replacementTimeout ?? usualReplacementTimeout,
  };
}

function isOn(word: 'true' | 'false' | undefined): boolean | undefined {
  return word === undefined ? undefined : word === 'true';
}

const list = z.array(z.string());

function portalsOf(targetPortal: string | undefined, portals: string | undefined): readonly Portal[] {
  const words = [...(targetPortal === undefined ? [] : [targetPortal]), ...wordsIn(portals)];
  if (words.length === 0) {
    throw mistake('portals is missing: name the addresses of the target, such as 10.0.0.1:3260,10.0.0.2:3260');
  }
  const found = parsePortals(words, usualPort);
  if (typeof found === 'string') throw mistake(`portals: ${found}`);
  return found;
}

/** csi-driver-iscsi has them as JSON: `["10.0.0.1:3260"]`. */
function wordsIn(portals: string | undefined): readonly string[] {
  if (portals === undefined || portals.trim() === '') return [];
  if (!portals.trim().startsWith('[') || /^\s*\[[0-9a-fA-F:]+\]/.test(portals)) return portals.split(',');
  try {
    return list.parse(JSON.parse(portals));
  } catch {
    throw mistake('portals: must be a list such as 10.0.0.1:3260,10.0.0.2:3260, or the same as a JSON array of texts');
  }
}

function mistake(words: string): InvalidArgument {
  return new InvalidArgument(`volumeAttributes of an iscsi volume: ${words.replace(/\.$/, '')}.`);
}
