import { type Document, isMap, isScalar, LineCounter, parseDocument, visit } from 'yaml';
import { z } from 'zod';
import { nearest } from './nearest.ts';
import { parseDuration } from './volume/duration.ts';
import { filesystemTypes } from './volume/filesystem.ts';
import { parseQuantity } from './volume/size.ts';
import { trimmings } from './volume/trimming.ts';

/** What the configuration file may say, and where in it a mistake is. */

/** A DNS label: a pool's name is part of a path and of log lines. */
const poolName = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

const size = z.union([z.string(), z.bigint()], 'must be a size, such as 10Gi').transform((value, context) => {
  try {
    const bytes = parseQuantity(String(value));
    if (bytes > 0n) return bytes;
    context.addIssue('must be more than 0');
  } catch (error) {
    context.addIssue(error instanceof Error ? error.message : String(error));
  }
  return z.NEVER;
});

const duration = z.union([z.string(), z.bigint()], 'must be a duration, such as 24h').transform((value, context) => {
  try {
    return parseDuration(String(value));
  } catch (error) {
    context.addIssue(error instanceof Error ? error.message : String(error));
    return z.NEVER;
  }
});

const absolutePath = z
  .string()
  .regex(/^\/[^\0]*$/, 'must be an absolute path')
  .transform((path) => path.replace(/(?<=.)\/+$/, ''));

// The parser yields whole numbers as bigint (sizes above 2^53 stay exact), others as number.
const number = z.union([z.bigint().transform(Number), z.number()], 'must be a number');

// Helm, and all else that reads YAML 1.1, makes false of a plain off.
const trim = z.preprocess((value) => (value === false ? 'off' : value), z.enum(trimmings).default('weekly'));

const pool = z
  .strictObject({
    kind: z.literal('image').default('image'),
    directory: absolutePath.optional(),
    device: absolutePath.optional(),
    file: absolutePath.optional(),
    size: size.optional(),
    reserve: size.optional(),
    overcommit: number.pipe(z.number().min(1).max(1000)).default(1),
    defaultFilesystem: z.enum(filesystemTypes).default('ext4'),
    undelete: duration.default(0),
    trim,
    sickAfter: duration.refine((seconds) => seconds > 0, 'must be more than 0').optional(),
  })
  .superRefine((value, context) => {
    const homes = (['directory', 'device', 'file'] as const).filter((key) => value[key] !== undefined);
    if (homes.length > 1) {
      context.addIssue({ code: 'custom', path: [homes[1] ?? ''], message: `set only one of ${homes.join(', ')}` });
    }
    if (value.size !== undefined && (value.directory !== undefined || value.device !== undefined)) {
      const message = 'only a backing file has a size; a directory or a device has that of its disk';
      context.addIssue({ code: 'custom', path: ['size'], message });
    }
  });

/** `default:` with nothing after it is a pool with nothing but defaults. */
const poolSection = z.preprocess((value) => value ?? {}, pool);

const configFile = z.strictObject({
  pools: z.record(z.string(), poolSection).optional(),
  defaultPool: z.string().optional(),
  expansion: z.enum(['node', 'controller']).default('node'),
  attach: z.enum(['none', 'required']).default('none'),
  maxVolumesPerNode: number.pipe(z.number().int().min(0).max(100_000)).default(0),
  lockTimeoutSeconds: number.pipe(z.number().min(0).max(86_400)).default(30),
});

export type ConfigFile = z.infer<typeof configFile>;
export type PoolSection = z.infer<typeof pool>;

/** The keys that an unknown one may be a misspelling of, by their depth in the file. */
const knownKeys: readonly (readonly string[])[] = [Object.keys(configFile.shape), [], Object.keys(pool.shape)];

/** One mistake, with its place as an editor shows it: both count from 1. */
export interface FileProblem {
  readonly line: number;
  readonly column: number;
  readonly message: string;
}

/** Every mistake in the file at once, or what it says. */
export function parseConfigFile(text: string): { file: ConfigFile } | { problems: FileProblem[] } {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, intAsBigInt: true, prettyErrors: false });
  const at = (offset: number, message: string): FileProblem => {
    const { line, col } = lines.linePos(offset);
    return { line, column: col, message };
  };
  const broken = [...document.errors, ...document.warnings];
  if (broken.length > 0) return { problems: broken.map((error) => at(error.pos[0], error.message)) };

  let content: unknown;
  try {
    content = document.toJS();
  } catch (error) {
    // An alias without its anchor, or too many of them.
    return { problems: [at(firstAlias(document), error instanceof Error ? error.message : String(error))] };
  }
  const parsed = configFile.safeParse(content ?? {});
  const problems = parsed.success ? checkReferences(parsed.data) : parsed.error.issues.flatMap(explain);
  if (parsed.success && problems.length === 0) return { file: parsed.data };
  return {
    problems: problems
      .map(({ path, message }) => at(offsetOf(document.contents, path), describe(path, message)))
      .sort((a, b) => a.line - b.line || a.column - b.column),
  };
}

interface Issue {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

function explain(issue: z.core.$ZodIssue): Issue[] {
  if (issue.code !== 'unrecognized_keys') return [{ path: issue.path, message: issue.message }];
  return issue.keys.map((key) => {
    const known = knownKeys[issue.path.length] ?? [];
    const meant = nearest(key, known);
    const hint = meant === undefined ? `known: ${known.join(', ')}` : `did you mean '${meant}'?`;
    return { path: [...issue.path, key], message: `unknown key (${hint})` };
  });
}

/** What the schema cannot see: names, and sections that refer to each other. */
function checkReferences(file: ConfigFile): Issue[] {
  const issues: Issue[] = [];
  const names = Object.keys(file.pools ?? { default: {} });
  const homes = new Map<string, string>();
  if (names.length === 0) issues.push({ path: ['pools'], message: 'name at least one pool, or leave the key out' });
  for (const [name, section] of Object.entries(file.pools ?? {})) {
    if (!poolName.test(name)) {
      const message = 'a pool name has 1 to 63 lower-case letters, digits and inner dashes';
      issues.push({ path: ['pools', name], message });
    }
    const home = section.directory ?? section.device ?? section.file;
    const other = home === undefined ? undefined : homes.get(home);
    if (other !== undefined) issues.push({ path: ['pools', name], message: `pool '${other}' is already at ${home}` });
    if (home !== undefined) homes.set(home, name);
  }
  if (file.defaultPool !== undefined && !names.includes(file.defaultPool)) {
    issues.push({ path: ['defaultPool'], message: `there is no such pool; there is ${names.join(', ')}` });
  }
  return issues;
}

function describe(path: readonly PropertyKey[], message: string): string {
  return path.length === 0 ? message : `${path.map(String).join('.')}: ${message}`;
}

/** Where the key at `path` starts; that of the nearest section above it if it is not there. */
function offsetOf(contents: unknown, path: readonly PropertyKey[]): number {
  let node = contents;
  let offset = 0;
  for (const name of path) {
    const pair = isMap(node) ? node.items.find(({ key }) => isScalar(key) && String(key.value) === name) : undefined;
    if (pair === undefined) return offset;
    offset = isScalar(pair.key) ? (pair.key.range?.[0] ?? offset) : offset;
    node = pair.value;
  }
  return offset;
}

function firstAlias(document: Document): number {
  let offset = 0;
  visit(document, {
    Alias(_key, alias) {
      offset = alias.range?.[0] ?? 0;
      return visit.BREAK;
    },
  });
  return offset;
}
