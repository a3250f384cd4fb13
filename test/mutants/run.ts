import { spawnSync } from 'node:child_process';
import {
  copyFileSync,
  cpSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { transform } from 'esbuild';
import { Usage } from '../../scripts/options.ts';
import { documentPath, type Outcome, readOutcomes, renderTable } from './document.ts';
import { type Mutant, mutate } from './mutant.ts';
import { mutants } from './table.ts';

const project = fileURLToPath(new URL('../..', import.meta.url));
/** What is needed to run a test. */
const copied = ['src', 'test', 'scripts', 'proto', 'docs', 'deploy', 'package.json', 'tsconfig.json', 'LICENSE'];
/** A test that hangs over a mutant has noticed it, too. */
const patienceMs = 10 * 60_000;

const usage =
  new Usage(`Takes one safeguard after another out of a copy of the sources, and runs the test that must notice. It takes long, and is no
part of npm test. The outcome is written to test/mutants/mutants.md. As root: npm run test:mutants -- [options] [word]...
Of the safeguards those are taken that have one of the words in their name, their file, or the file of their test.
  --list    names them, and takes none out
  --new     only those that no test has noticed yet
`);
const { positionals, values } = usage.read({
  options: { list: { type: 'boolean' }, new: { type: 'boolean' } },
  allowPositionals: true,
});
const before = readOutcomes(readFileSync(join(project, documentPath), 'utf8'));
const hasWord = ({ file, killer, name }: Mutant, word: string) => `${name} ${file} ${killer}`.includes(word);
usage.requireKnown(
  positionals,
  (word) => mutants.some((mutant) => hasWord(mutant, word)),
  'no safeguard has this word in its name, its file, or the file of its test',
);
const chosen = mutants.filter(
  (mutant) =>
    (positionals.length === 0 || positionals.some((word) => hasWord(mutant, word))) &&
    !(values.new === true && before.get(mutant.name) === 'killed'),
);
/** Tests of the sources as they are: each run once. */
const whole = new Map<string, boolean>();

if (values.list === true) {
  for (const { file, killer, name } of chosen) console.log(`${name}\n    ${file}, killed by ${killer}`);
} else {
  process.exitCode = await runAll();
}

async function runAll(): Promise<number> {
  const copy = mkdtempSync('/var/tmp/holdfast-mutants-');
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => {
      rmSync(copy, { recursive: true, force: true });
      process.exit(1);
    });
  }
  try {
    for (const name of copied) cpSync(join(project, name), join(copy, name), { recursive: true });
    symlinkSync(join(project, 'node_modules'), join(copy, 'node_modules'));
    let survivors = 0;
    for (const [index, mutant] of chosen.entries()) {
      const startedMs = performance.now();
      const outcome = await judge(copy, mutant);
      if (outcome !== 'killed') survivors++;
      // Read anew: another run beside this one writes it, too.
      const outcomes = readOutcomes(readFileSync(join(project, documentPath), 'utf8'));
      outcomes.set(mutant.name, outcome);
      writeFileSync(join(copy, documentPath), renderTable(mutants, outcomes));
      replace(join(copy, documentPath), join(project, documentPath));
      const seconds = ((performance.now() - startedMs) / 1000).toFixed(0);
      console.log(`${index + 1} of ${chosen.length}, ${seconds} s: ${outcome.padEnd(9)} ${mutant.name}`);
    }
    console.log(`${chosen.length - survivors} killed, ${survivors} not`);
    return survivors === 0 ? 0 : 1;
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}

/** Whoever reads it meanwhile finds all of it. */
function replace(from: string, to: string): void {
  copyFileSync(from, `${to}.new`);
  renameSync(`${to}.new`, to);
}

async function judge(copy: string, mutant: Mutant): Promise<Outcome> {
  const key = `${mutant.killer} ${mutant.only}`;
  if (!whole.has(key)) whole.set(key, passes(copy, mutant));
  // A test that fails anyway kills nothing.
  if (whole.get(key) !== true) return 'no test';
  const path = join(copy, mutant.file);
  const source = readFileSync(path, 'utf8');
  const mutated = mutate(source, mutant);
  // Throws for what is no program: its tests would fail for that.
  if (path.endsWith('.ts')) await transform(mutated, { loader: 'ts' });
  writeFileSync(path, mutated);
  try {
    return passes(copy, mutant) ? 'SURVIVED' : 'killed';
  } finally {
    writeFileSync(path, source);
  }
}

function passes(copy: string, { killer, only }: Mutant): boolean {
  const pattern = only === undefined ? [] : [`--test-name-pattern=${only}`];
  // A test that has failed may have left a server behind, for which its process would wait.
  const options = ['--test', '--test-concurrency=1', '--test-force-exit', ...pattern];
  const { status } = spawnSync(process.execPath, [...options, killer], {
    cwd: copy,
    stdio: 'ignore',
    // The mutant is in the sources.
    env: { ...process.env, HOLDFAST_TEST_DRIVER: undefined },
    timeout: patienceMs,
    // In order, so that a test's own handler puts the machine back.
    killSignal: 'SIGTERM',
  });
  return status === 0;
}
