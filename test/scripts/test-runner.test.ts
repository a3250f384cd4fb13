import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { describe, type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { mutants } from '../mutants/table.ts';
import { Scratch } from '../support/scratch.ts';

const script = fileURLToPath(new URL('../../scripts/test.sh', import.meta.url));
const modules = fileURLToPath(new URL('../../node_modules', import.meta.url));

/** A project with our runner of tests, and nothing but one unit test in it. */
function project(t: TestContext, test: string) {
  const scratch = new Scratch('runner');
  t.after(() => scratch[Symbol.dispose]());
  mkdirSync(scratch.join('scripts'));
  mkdirSync(scratch.join('src'));
  cpSync(script, scratch.join('scripts/test.sh'));
  writeFileSync(scratch.join('scripts/setup.sh'), '');
  writeFileSync(scratch.join('package.json'), '{"type": "module"}');
  writeFileSync(scratch.join('src/only.test.ts'), `import { test } from 'node:test';\n${test}`);
  symlinkSync(modules, scratch.join('node_modules'));
  return {
    run(...args: string[]) {
      // A test runner below a test runner would report to that one.
      const { NODE_TEST_CONTEXT: _, HOLDFAST_TEST_SEED: __, ...env } = process.env;
      const { status, stderr, stdout } = spawnSync('bash', [scratch.join('scripts/test.sh'), 'unit', ...args], {
        encoding: 'utf8',
        env,
      });
      return { status, stderr, summary: stdout.slice(stdout.indexOf('== summary')), stdout };
    },
    kept(name: string): string {
      const [run = ''] = readdirSync(scratch.join('.cache/test-results'));
      return readFileSync(scratch.join('.cache/test-results', run, name), 'utf8');
    },
  };
}

/** The test files in a list of the runner. */
function listed(name: string): string[] {
  const lines = readFileSync(new URL(`../../scripts/${name}-tests.txt`, import.meta.url), 'utf8').split('\n');
  return lines.map((line) => line.replace(/ *#.*/, '')).filter((line) => line !== '');
}

describe('npm test', () => {
  test('a test that fails among others and would pass the next time fails the run', (t) => {
    const { kept, run } = project(
      t,
      `import { existsSync, writeFileSync } from 'node:fs';
      test('now and then', () => {
        if (existsSync('once')) return;
        writeFileSync('once', '');
        throw new Error('data was lost');
      });`,
    );
    const { status, summary } = run();
    assert.equal(status, 1, summary);
    assert.match(summary, /^unit +FAILED/m);
    assert.match(summary, /not ok 1 - now and then/);
    assert.match(summary, /0 passed, 1 failed, 0 skipped\n$/);
    assert.match(kept('unit.tap'), /data was lost/);
    assert.match(kept('summary'), /1 failed/);
  });

  test('what failed is in the summary, with its place, its first words and its seeds; they are kept', (t) => {
    const { kept, run } = project(
      t,
      `import fc from 'fast-check';
      import { describe } from 'node:test';
      test('chance', () => fc.assert(fc.property(fc.nat(), (n) => n < 10), { seed: 4711 }));
      describe('a suite', () => test('a group', (t) => t.test('a part', () => { throw new Error('lost'); })));
      test('ours', (t) => t.diagnostic(\`seed \${process.env.HOLDFAST_TEST_SEED}\`));`,
    );
    const { status, summary } = run();
    assert.equal(status, 1);
    assert.match(summary, /^not ok 1 - chance {2}'\S+:4:7'$/m);
    assert.match(summary, /^ +Property failed after 1 tests\n +\{ seed: 4711, path: "[0-9:]+"/m);
    assert.match(summary, /^not ok 1 - a part .*\n {2}of: a suite > a group\n +error: 'lost'$/m);
    const seed = /HOLDFAST_TEST_SEED=(\d+) repeats/.exec(summary)?.[1];
    assert.equal(kept('seed'), `${seed}\n`);
    assert.match(kept('unit.tap'), new RegExp(`# seed ${seed}$`, 'm'));
  });

  test('a skipped test fails the run, unless somebody says that it may be skipped', (t) => {
    const { run } = project(t, "test('no', (t) => t.skip('not here')); test('yes', () => undefined);");
    assert.equal(run().status, 1);
    const { status, summary } = run('--allow-skips');
    assert.equal(status, 0, summary);
    assert.match(summary, /1 tests were skipped\n1 passed, 0 failed, 1 skipped\n$/);
  });

  test('a stage that is not there fails the run before it begins', (t) => {
    const { run } = project(t, "test('yes', () => undefined);");
    const { status, stderr, stdout } = run('untis');
    assert.deepEqual([status, stdout], [2, '']);
    assert.match(stderr, /^there is no stage untis\nusage: npm test -- /);
  });

  test('a run without a failure', (t) => {
    const { run } = project(t, "test('yes', () => undefined);");
    const { status, summary } = run();
    assert.equal(status, 0, summary);
    assert.match(summary, /1 passed, 0 failed, 0 skipped\n$/);
  });

  test('each stage that it knows is one, and the other way round', () => {
    const text = readFileSync(script, 'utf8');
    const known = /^stages='(.*)'$/m.exec(text)?.[1]?.split(' ') ?? [];
    const run = [...text.matchAll(/(?:^ *|then |\|\| )stage ([a-z]+) /gm)].map(([, name]) => name);
    assert.deepEqual([...new Set(run)].sort(), known.toSorted());
  });

  test('what it leaves out is there and listed once, and what CI leaves out, too, is the test of no mutant', () => {
    const [slow, long] = [listed('slow'), listed('long')];
    for (const file of [...slow, ...long]) readFileSync(new URL(`../../${file}`, import.meta.url));
    assert.equal(new Set([...slow, ...long]).size, slow.length + long.length);
    const killers = new Set(mutants.map(({ killer }) => killer));
    assert.deepEqual(
      long.filter((file) => killers.has(file)),
      [],
    );
  });

  test('what runs by itself is there', () => {
    const list = /^alone=\(\n(.*?)\n\)/ms.exec(readFileSync(script, 'utf8'))?.[1] ?? assert.fail();
    for (const name of list.split('\n')) readFileSync(new URL(`../../${name.trim()}`, import.meta.url));
  });
});
