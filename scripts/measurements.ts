import { dirname, join } from 'node:path/posix';

/** Texts of TypeScript files, by their paths from the top of the repository. */
export type Sources = ReadonlyMap<string, string>;

/** Folders of generated code. */
const generated = /\/generated\//;

/** Files that ship: everything in `src` but tests and generated code. */
export function shipped(files: Sources): Sources {
  return filter(files, (path) => path.startsWith('src/') && !path.endsWith('.test.ts') && !generated.test(path));
}

/** Tests beside the sources, and everything in `test` and `csi-sanity`. */
export function tests(files: Sources): Sources {
  return filter(files, (path) => path.endsWith('.test.ts') || /^(?:test|csi-sanity)\//.test(path));
}

function filter(files: Sources, isWanted: (path: string) => boolean): Sources {
  return new Map([...files].filter(([path]) => isWanted(path)));
}

export interface Lines {
  readonly all: number;
  readonly comments: number;
  readonly imports: number;
  readonly blank: number;
}

export function countLines(files: Sources): Lines {
  const counts = { all: 0, comments: 0, imports: 0, blank: 0 };
  for (const text of files.values()) {
    const lines = text.trimEnd().split('\n');
    let isImport = false;
    for (const line of lines) {
      counts.all++;
      if (/^import\b/.test(line)) isImport = true;
      if (isImport) counts.imports++;
      else if (line.trim() === '') counts.blank++;
      else if (/^\s*(?:\/\/|\/\*|\*)/.test(line)) counts.comments++;
      if (isImport && line.endsWith(';')) isImport = false;
    }
  }
  return counts;
}

/** Members of the interfaces in one file, each interface's own. The files are formatted, so that a member's line is indented by 2. */
export function countMembers(text: string): ReadonlyMap<string, number> {
  const interfaces = text.matchAll(/^export interface (?<name>\w+)[^{]*\{\n(?<body>.*?)^\}/gms);
  return new Map(
    Array.from(interfaces, ({ groups }) => {
      const members = (groups?.['body'] ?? '')
        .split('\n')
        .filter((line) => /^ {2}(?:readonly )?\w+\??[(:<]/.test(line));
      return [groups?.['name'] ?? '', members.length];
    }),
  );
}

/** TypeScript files in each folder itself, the largest first. */
export function filesByFolder(files: Sources): readonly (readonly [string, number])[] {
  const counts = new Map<string, number>();
  for (const path of files.keys()) counts.set(dirname(path), (counts.get(dirname(path)) ?? 0) + 1);
  return [...counts].sort(([, a], [, b]) => b - a);
}

/** Paths that each file imports from the repository; types are included. */
export function importsOf(path: string, text: string): readonly string[] {
  const specifiers = text.matchAll(/^(?:import|export|\})\b[^;'"]*?(?:from )?'(?<specifier>\.{1,2}\/[^']+)'/gm);
  return Array.from(specifiers, ({ groups }) => join(dirname(path), groups?.['specifier'] ?? ''));
}

/** Pairs of folders that import each other, each once; a folder inside another one is a part of it. */
export function folderCycles(files: Sources): readonly string[] {
  const edges = new Set<string>();
  for (const [path, text] of files) {
    for (const imported of importsOf(path, text)) {
      if (dirname(imported) !== dirname(path)) edges.add(`${dirname(path)} ${dirname(imported)}`);
    }
  }
  const pairs = [...edges].map((edge) => edge.split(' ') as [string, string]);
  return pairs
    .filter(([from, to]) => from < to && edges.has(`${to} ${from}`) && !to.startsWith(`${from}/`))
    .map(([from, to]) => `${from} <-> ${to}`)
    .sort();
}

/** Names of functions that several files declare at their top level. */
export function sharedNames(files: Sources): ReadonlyMap<string, readonly string[]> {
  const places = new Map<string, string[]>();
  for (const [path, text] of files) {
    const declared = text.matchAll(/^(?:export )?(?:async )?function\*? (?<name>\w+)/gm);
    const names = new Set(Array.from(declared, ({ groups }) => groups?.['name'] ?? ''));
    for (const name of names) places.set(name, [...(places.get(name) ?? []), path]);
  }
  return new Map([...places].filter(([, paths]) => paths.length > 1));
}

const smallLines = 40;

/** Files shorter than 40 lines that one other file alone imports. */
export function smallWithOneImporter(files: Sources): readonly string[] {
  const importers = new Map<string, number>();
  for (const [path, text] of files) {
    for (const imported of new Set(importsOf(path, text))) importers.set(imported, (importers.get(imported) ?? 0) + 1);
  }
  return [...files]
    .filter(([path, text]) => importers.get(path) === 1 && text.trimEnd().split('\n').length < smallLines)
    .map(([path]) => path)
    .sort();
}

/** Minutes of all stages in the summary that `scripts/test.sh` prints; undefined: a stage is missing in it. */
export function minutesOf(summary: string, stages: readonly string[]): number | undefined {
  const seconds = new Map(
    Array.from(summary.matchAll(/^(?<stage>\w+) +(?:ok|FAILED) +(?<seconds>[\d.]+) s$/gm), ({ groups }) => {
      return [groups?.['stage'] ?? '', Number(groups?.['seconds'] ?? 0)] as const;
    }),
  );
  if (!stages.every((stage) => seconds.has(stage))) return undefined;
  return [...seconds.values()].reduce((sum, each) => sum + each, 0) / 60;
}
