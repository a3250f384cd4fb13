import { globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { findWords } from '../test/lint/words.ts';
import {
  countLines,
  countMembers,
  filesByFolder,
  folderCycles,
  minutesOf,
  type Sources,
  sharedNames,
  shipped,
  smallWithOneImporter,
  tests,
} from './measurements.ts';
import { Usage } from './options.ts';

const root = fileURLToPath(new URL('..', import.meta.url));

const usage = new Usage(`Size and shape of the sources, beside what they are to become: npm run measure -- [--long]

  --long  names each finding`);
const isLong = usage.read({ options: { long: { type: 'boolean', default: false } } }).values.long;

/** Interfaces that the author of a kind writes. */
const facets = [
  'Backend RecordReader RecordStore Provisioner Attacher Snapshotter SpaceSource LayoutSpace TemplateSpace Extras Adoption Thickness Repairer',
  'Draft VolumeDraft SnapshotDraft Clone RepairDraft',
].flatMap((names) => names.split(' '));

function read(pattern: string): Sources {
  return new Map(
    globSync(pattern, { cwd: root })
      .sort()
      .map((path) => [path, readFileSync(`${root}/${path}`, 'utf8')]),
  );
}

/** The newest run of the tests in this checkout that has these stages and, unless it is one of them, no manifests. */
function minutes(stages: readonly string[]): string {
  const summaries = globSync('.cache/test-results/*/summary', { cwd: root }).sort().reverse();
  for (const path of summaries) {
    const summary = readFileSync(`${root}/${path}`, 'utf8');
    if (!stages.includes('manifests') && /^manifests /m.test(summary)) continue;
    const found = minutesOf(summary, stages);
    if (found !== undefined) return found.toFixed(1);
  }
  return 'not run here';
}

interface Row {
  readonly name: string;
  readonly now: number | string;
  readonly goal?: number;
  /** Each finding, for `--long`. */
  readonly found?: readonly string[];
}

const files = new Map([...read('{src,scripts,deploy}/**/*.ts'), ...read('{test,csi-sanity}/**/*.ts')]);
const source = shipped(files);
const lines = countLines(source);
const members = countMembers(source.get('src/pool/backend.ts') ?? '');
const port = facets.flatMap((name) => {
  const count = members.get(name);
  return count === undefined ? [] : [{ name, count }];
});
const folders = filesByFolder(source);
const words = [...source].map(([path, text]) => ({ path, count: findWords(text).length }));
const full = folders.filter(([, count]) => count > 25);
const cycles = folderCycles(source);
const names = sharedNames(source);
const small = smallWithOneImporter(source);
const quickStages = ['build', 'lint', 'types', 'unit', 'kernel', 'tests', 'alone', 'sanity'];

const rows: readonly Row[] = [
  {
    name: 'members of the port that a kind faces',
    now: port.reduce((sum, { count }) => sum + count, 0),
    goal: 45,
    found: port.map(({ count, name }) => `${count} ${name}`),
  },
  { name: 'lines of sources', now: lines.all, goal: 49_000 },
  { name: '  of them comments', now: lines.comments },
  { name: '  of them imports', now: lines.imports },
  { name: '  of them blank', now: lines.blank },
  { name: 'lines of tests', now: countLines(tests(files)).all },
  { name: 'files of sources', now: source.size },
  { name: 'files in the fullest folder', now: folders[0]?.[1] ?? 0, goal: 25 },
  {
    name: 'folders with more than 25 files',
    now: full.length,
    goal: 0,
    found: full.map(([path, count]) => `${count} ${path}`),
  },
  { name: 'pairs of rooms that import each other', now: cycles.length, goal: 0, found: cycles },
  {
    name: 'functions that share a name',
    now: names.size,
    found: [...names]
      .map(([name, paths]) => `${paths.length} ${name}`)
      .sort((a, b) => Number.parseInt(b, 10) - Number.parseInt(a, 10)),
  },
  { name: 'files below 40 lines with one importer', now: small.length, found: small },
  {
    name: 'words that the rules replace',
    now: words.reduce((sum, { count }) => sum + count, 0),
    goal: 0,
    found: words
      .filter(({ count }) => count > 0)
      .sort((a, b) => b.count - a.count)
      .map(({ count, path }) => `${count} ${path}`),
  },
  { name: 'minutes of npm test', now: minutes(quickStages), goal: 10 },
  { name: 'minutes of everything', now: minutes([...quickStages, 'vm', 'manifests']), goal: 60 },
];

for (const { found = [], goal, name, now } of rows) {
  process.stdout.write(`${name.padEnd(42)}${String(now).padStart(8)}${goal === undefined ? '' : `  goal ${goal}`}\n`);
  if (isLong) for (const each of found) process.stdout.write(`    ${each}\n`);
}
