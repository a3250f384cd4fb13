import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { filesByFolder, folderCycles, shipped } from '../../scripts/measurements.ts';

const project = fileURLToPath(new URL('../..', import.meta.url));
const files = globSync('src/**/*.ts', { cwd: project });
const source = shipped(new Map(files.map((path) => [path, readFileSync(join(project, path), 'utf8')])));

test('no two folders of src import each other, types included', () => {
  assert.ok(source.size > 500);
  assert.deepEqual(folderCycles(source), []);
});

test('no folder of src has more than 25 files', () => {
  const full = filesByFolder(source).filter(([, count]) => count > 25);
  assert.deepEqual(full, []);
});
