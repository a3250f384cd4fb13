import type { SectionReader } from '../../../settings/section.ts';
import { absolutePath, duration, oneOf, yesOrNo } from '../../../settings/values.ts';

/** flexvolume: arguments, as the kubelet called FlexVolume drivers. json: a request on standard input. */
export const protocols = ['flexvolume', 'json'] as const;

/** The result of a program's work: a mounted directory, or a block device that the driver mounts. */
export const presentations = ['directory', 'device'] as const;

/** A program of the user's, from the configuration. */
export interface ProgramConfig {
  readonly name: string;
  /** Absolute; empty only if there is a mistake. */
  readonly path: string;
  readonly protocol: (typeof protocols)[number];
  readonly presents: (typeof presentations)[number];
  /** The time for one call; then the program is killed. */
  readonly timeoutMs: number;
  /** For flexvolume, which has no other way: every user of the node can read arguments while a program runs. */
  readonly secretsInArguments: boolean;
  /** The first argument of detach: its specification says the device, and Kubernetes gave the volume's name. */
  readonly detachBy: 'device' | 'name';
}

const readers = {
  path: absolutePath,
  protocol: oneOf(protocols),
  presents: oneOf(presentations),
  timeout: duration({ minimumSeconds: 1, maximumSeconds: 3600 }),
  secretsInArguments: yesOrNo,
  detachBy: oneOf(['device', 'name']),
};

const defaultTimeoutSeconds = 60;

/** Part of the key of a server, a word in messages. */
const programName = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

export function readProgram(name: string, section: SectionReader): ProgramConfig {
  section.refuseOthers(Object.keys(readers));
  if (!programName.test(name)) {
    section.mistake([], 'the name of a program has 1 to 63 lower-case letters, digits and inner dashes');
  }
  const given = section.readAll(readers);
  const { detachBy = 'device', presents = 'directory', secretsInArguments = false, timeout } = given;
  if (!section.has('path')) {
    section.mistake([], 'needs a path: the program, such as /usr/libexec/holdfast/nbd');
  }
  if (!section.has('protocol')) {
    section.mistake([], 'needs a protocol: flexvolume for a FlexVolume driver, json for a program that reads JSON');
  }
  const protocol = given.protocol ?? 'json';
  for (const key of ['secretsInArguments', 'detachBy'] as const) {
    if (protocol === 'json' && section.has(key)) section.mistake([key], 'is for the protocol flexvolume alone');
  }
  const timeoutMs = (timeout ?? defaultTimeoutSeconds) * 1000;
  return { name, path: given.path ?? '', protocol, presents, timeoutMs, secretsInArguments, detachBy };
}
