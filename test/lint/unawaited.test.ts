import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { API } from 'typescript/unstable/sync';
import { Scratch } from '../support/scratch.ts';
import { unawaitedReturns } from './unawaited.ts';

const projectRoot = fileURLToPath(new URL('../..', import.meta.url));

/** What is found in all files of the project below a directory. */
function check(directory: string): string[] {
  const api = new API({ cwd: directory });
  try {
    const configFile = join(directory, 'tsconfig.json');
    const project = api.updateSnapshot({ openProjects: [configFile] }).getProject(configFile);
    assert.ok(project !== undefined, 'the project cannot be opened');
    return project.program
      .getSourceFileNames()
      .filter((name) => name.startsWith(`${directory}/`) && !name.includes('/node_modules/'))
      .flatMap((name) => {
        const file = project.program.getSourceFile(name);
        return file === undefined ? [] : unawaitedReturns(file, project.checker);
      })
      .map((place) => relative(directory, place));
  } finally {
    api.close();
  }
}

test('nothing is released, and no failure missed, before what is returned is done', () => {
  assert.deepEqual(check(projectRoot.replace(/\/$/, '')), []);
});

test('what it finds, and what it does not', () => {
  using scratch = new Scratch('lint');
  const lines = [
    'declare const work: () => Promise<number>; declare const maybe: () => Promise<number> | undefined;',
    'declare const held: Disposable; declare const open: AsyncDisposable;',
    'async function a() { await using it = open; return work(); } // found',
    'async function b() { using it = held; if (it) { return maybe(); } return 1; } // found',
    'async function c() { try { return work(); } finally { held[Symbol.dispose](); } } // found',
    'async function d() { try { await work(); } catch { return work(); } return 2; }',
    'async function e() { if (held) { using it = held; } return work(); }',
    'async function f() { using it = held; return await work(); }',
    'async function g() { using it = held; return [1].map(() => { return work(); }); }',
    'async function h() { const early = work(); if (early) return early; using it = held; return 3; }',
    'function j() { try { return work(); } catch { return work(); } }',
    'async function k() { try { return work(); } catch { return 4; } } // found',
    'function i() { using it = held; return work(); } // found',
  ];
  mkdirSync(scratch.join('src'));
  writeFileSync(scratch.join('src', 'a.ts'), lines.join('\n'));
  const compilerOptions = { target: 'ES2023', lib: ['ES2023', 'ESNext.Disposable'], types: [] };
  writeFileSync(scratch.join('tsconfig.json'), JSON.stringify({ compilerOptions, include: ['src'] }));
  const expected = lines.flatMap((line, index) => (line.endsWith('// found') ? [`src/a.ts:${index + 1}`] : []));
  assert.deepEqual(check(scratch.path), expected);
});
