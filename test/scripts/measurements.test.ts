import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  countLines,
  countMembers,
  filesByFolder,
  folderCycles,
  importsOf,
  minutesOf,
  sharedNames,
  shipped,
  smallWithOneImporter,
  tests,
} from '../../scripts/measurements.ts';

const files = new Map([
  [
    'src/a/one.ts',
    "import {\n  type Two,\n  two,\n} from '../b/two.ts';\n\n/** Why. */\nexport function same(): void {}\n",
  ],
  ['src/a/two.ts', "import { one } from './one.ts';\nfunction same(): void {}\n"],
  ['src/a/inner/three.ts', "export type { One } from '../one.ts';\n"],
  ['src/b/two.ts', "import type { One } from '../a/one.ts';\n// Why.\nasync function other(): Promise<void> {}\n"],
  ['src/b/two.test.ts', "import { two } from './two.ts';\n"],
  ['src/csi/generated/types.ts', 'export type Wire = 1;\n'],
  ['test/x.test.ts', 'x\n'],
]);

test('sources that ship are neither tests nor generated', () => {
  assert.deepEqual(
    [...shipped(files).keys()],
    ['src/a/one.ts', 'src/a/two.ts', 'src/a/inner/three.ts', 'src/b/two.ts'],
  );
  assert.deepEqual([...tests(files).keys()], ['src/b/two.test.ts', 'test/x.test.ts']);
});

test('lines are counted by what they are', () => {
  const one = new Map([['src/a/one.ts', files.get('src/a/one.ts') ?? '']]);
  assert.deepEqual(countLines(one), { all: 7, comments: 1, imports: 4, blank: 1 });
});

test('members of an interface are its own, not those of what it extends or contains', () => {
  const text = `export interface Part<T> extends Base {
  /** Why. */
  readonly name: string;
  optional?: { inner: string };
  method(of: {
    a: string;
  }): void;
}
`;
  assert.deepEqual([...countMembers(text)], [['Part', 3]]);
});

test('folders, and those that import each other, types included', () => {
  assert.deepEqual(filesByFolder(shipped(files))[0], ['src/a', 2]);
  assert.deepEqual(importsOf('src/a/one.ts', files.get('src/a/one.ts') ?? ''), ['src/b/two.ts']);
  assert.deepEqual(folderCycles(shipped(files)), ['src/a <-> src/b']);
});

test('names of functions that several files have, and small files with one importer', () => {
  assert.deepEqual([...sharedNames(shipped(files))], [['same', ['src/a/one.ts', 'src/a/two.ts']]]);
  assert.deepEqual(smallWithOneImporter(shipped(files)), ['src/b/two.ts']);
});

test('minutes are those of a run that had all stages', () => {
  const summary = 'build      ok           0.7 s\ntests      FAILED     659.3 s\n1 passed, 0 failed, 0 skipped\n';
  assert.equal(minutesOf(summary, ['build', 'tests']), 11);
  assert.equal(minutesOf(summary, ['build', 'vm']), undefined);
});
