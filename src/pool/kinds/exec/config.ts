import { type SectionReader, shown, WrongValue } from '../../../settings/section.ts';
import { absolutePath, duration, oneOf, text, yesOrNo } from '../../../settings/values.ts';

/** flexvolume: arguments, as the kubelet called FlexVolume drivers. json: a request on standard input. */
const protocols = ['flexvolume', 'json'] as const;

/** The result of a program's work: a mounted directory, or a block device that the driver mounts. */
const presentations = ['directory', 'device'] as const;

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
  /** It takes snapshots of the volumes that it makes, and makes volumes of volumes and snapshots. */
  readonly snapshots: boolean;
}

const readers = {
  path: absolutePath,
  protocol: oneOf(protocols),
  presents: oneOf(presentations),
  timeout: duration({ minimumSeconds: 1, maximumSeconds: 3600 }),
  secretsInArguments: yesOrNo,
  detachBy: oneOf(['device', 'name']),
  snapshots: yesOrNo,
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
  const { detachBy = 'device', presents = 'directory', secretsInArguments = false, snapshots = false, timeout } = given;
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
  if (protocol === 'flexvolume' && section.has('snapshots')) {
    section.mistake(['snapshots'], 'is for the protocol json alone');
  }
  const timeoutMs = (timeout ?? defaultTimeoutSeconds) * 1000;
  return { name, path: given.path ?? '', protocol, presents, timeoutMs, secretsInArguments, detachBy, snapshots };
}

/** Options that only pools of programs have. */
export interface ExecPoolOptions {
  readonly programName: string;
  /** undefined only if there is a mistake. */
  readonly program: ProgramConfig | undefined;
  /** The directory of the pool's records: on storage that follows the home. */
  readonly records: string;
  /** The options of the program, for all volumes of the pool: a class cannot name any. */
  readonly options: Readonly<Record<string, string>>;
}

const poolReaders = { program: text, records: absolutePath, options: texts };

export const execPoolKeys: readonly string[] = Object.keys(poolReaders);

export function readExecPool(section: SectionReader): ExecPoolOptions {
  const { options = {}, program, records } = section.readAll(poolReaders);
  if (!section.has('program')) section.mistake([], 'needs a program: the name of one under programs');
  if (!section.has('records')) {
    section.mistake([], 'needs records: a directory for its records, on storage that follows the home to another node');
  }
  return { programName: program ?? '', program: undefined, records: records ?? '', options };
}

/** Finds the program of a pool. @returns why it has none */
export function withProgram(
  pool: ExecPoolOptions,
  programs: readonly ProgramConfig[],
): ExecPoolOptions | { readonly mistake: string } {
  const program = programs.find(({ name }) => name === pool.programName);
  if (program === undefined) {
    const names = programs.map(({ name }) => name);
    return { mistake: `there is no program ${pool.programName}; there is ${names.join(', ') || 'none'}: see programs` };
  }
  if (program.protocol === 'json') return { ...pool, program };
  return { mistake: `program ${pool.programName} is a FlexVolume driver: those make no volumes` };
}

function texts(value: unknown): Readonly<Record<string, string>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new WrongValue(`must be a section with a text for each option, not ${shown(value)}`);
  }
  return Object.fromEntries(
    Object.entries(value).map(([key, option]: [string, unknown]): [string, string] => {
      if (typeof option === 'string') return [key, option];
      throw new WrongValue(`must be text, not ${shown(option)}: put it in quotes`, [key]);
    }),
  );
}
