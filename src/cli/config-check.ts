import { readFileSync } from 'node:fs';
import { defaultPoolOf, whyUnreadable } from '../config/config.ts';
import { parseConfigFile, parseSettings, type Settings } from '../config/file.ts';
import type { HostPlaces } from '../config/locations.ts';
import { overlaps } from '../config/node-names.ts';
import { defaultKind, type PoolConfig } from '../pool/kinds.ts';
import { exitCodes, type Output, toJson } from './output/output.ts';
import { tableLines } from './output/table.ts';

export interface ConfigCheckOptions {
  readonly file: string;
  readonly json: boolean;
  /** The node whose part is asked for; undefined: all of it. */
  readonly node: string | undefined;
}

/** `holdfast config check`: all mistakes in a file of configuration, or which pools it gives to which nodes. */
export async function configCheckCommand(
  places: HostPlaces,
  output: Output,
  { file, json, node }: ConfigCheckOptions,
): Promise<number> {
  const text = read(file, output);
  if (text === undefined) return exitCodes.usage;
  const parsed = node === undefined ? allOf(text, places) : partFor(text, places, node);
  if ('problems' in parsed) {
    for (const { column, line, message } of parsed.problems)
      output.problem('INVALID_ARGUMENT', `${file}:${line}:${column}: ${message}`);
    return exitCodes.usage;
  }
  const names = parsed.file.flatMap(({ nodes }) => nodes ?? []);
  let isUsable = true;
  for (const { isContained, one, other } of overlaps(names)) {
    isUsable &&= !isContained;
    const message = isContained
      ? `nodes '${one}' and '${other}': a node that fits the first fits the second, too, and would not start: change one of the patterns`
      : `nodes '${one}' and '${other}': a node whose name fits both would not start`;
    output.problem(isContained ? 'INVALID_ARGUMENT' : 'WARNING', `${file}: ${message}`);
  }
  if (!isUsable) return exitCodes.usage;
  if (json) output.line(toJson<'config check'>({ sections: parsed.file }));
  else for (const line of tableLines(columns, parsed.file.map(forPeople(parsed.file.length)))) output.line(line);
  return exitCodes.ok;
}

function read(file: string, output: Output): string | undefined {
  try {
    return readFileSync(file === '-' ? 0 : file, 'utf8');
  } catch (error) {
    output.problem('INVALID_ARGUMENT', whyUnreadable(file, error));
    return undefined;
  }
}

interface Section {
  /** undefined: all for which there is no other. */
  readonly nodes: string | undefined;
  readonly defaultPool: string;
  readonly pools: readonly Pick<PoolConfig, 'name' | 'kind'>[];
}

function allOf(text: string, places: HostPlaces) {
  const parsed = parseConfigFile(text, places);
  if ('problems' in parsed) return parsed;
  const { common, sections } = parsed.file;
  return { file: [sectionOf(undefined, common), ...[...sections].map(([names, part]) => sectionOf(names, part))] };
}

function partFor(text: string, places: HostPlaces, node: string) {
  const parsed = parseSettings(text, places, node);
  return 'problems' in parsed ? parsed : { file: [sectionOf(node, parsed.file)] };
}

function sectionOf(nodes: string | undefined, settings: Settings): Section {
  const pools = settings.pools ?? [{ name: 'default', kind: defaultKind }];
  return {
    nodes,
    defaultPool: defaultPoolOf(settings, pools),
    pools: pools.map(({ kind, name }) => ({ name, kind })),
  };
}

const columns = [{ title: 'NODES' }, { title: 'DEFAULT' }, { title: 'POOLS' }] as const;

const forPeople =
  (count: number) =>
  ({ defaultPool, nodes, pools }: Section): string[] => {
    const whose = nodes ?? (count === 1 ? 'all' : 'all others');
    if (pools.length === 0) return [whose, '-', 'none: for a home (HOLDFAST_SIDE) alone'];
    return [whose, defaultPool, pools.map(({ kind, name }) => `${name} (${kind})`).join(', ')];
  };
