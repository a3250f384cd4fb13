import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { objectsOf } from '../deploy/objects.ts';
import { cannotRun, pages, runnable } from './pages.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

describe('the guides', () => {
  test('are all among the pages that npm run test:docs goes through', () => {
    const guides = readdirSync(join(root, 'docs/guides')).map((name) => `docs/guides/${name}`);
    const known = [...pages.map(({ file }) => file), 'docs/guides/README.md'];
    assert.deepEqual(
      guides.filter((file) => !known.includes(file)),
      [],
    );
    assert.deepEqual(Object.keys(cannotRun).sort(), pages.map(({ file }) => file).sort());
  });

  for (const page of pages) {
    const { commands, file, untried } = page;
    test(`${file} says which of its commands are not run, and they are not`, () => {
      const out = cannotRun[file] ?? [];
      assert.deepEqual([...untried].sort(), [...(out === 'all' ? commands : out)].sort());
      for (const command of untried) assert.ok(commands.includes(command), `there is no such command: ${command}`);
    });
  }

  test('have commands that are run', () => {
    assert.ok(pages.flatMap(runnable).length >= 50, `${pages.flatMap(runnable).length}`);
  });

  test('name the images that the manifests name', () => {
    const daemonSet = objectsOf(readFileSync(join(root, 'deploy/base/daemon-set.yaml'), 'utf8'));
    const images = JSON.stringify([...daemonSet.values()]).match(/registry\.k8s\.io\/[^"]*/g) ?? [];
    const page = readFileSync(join(root, 'docs/guides/air-gapped.md'), 'utf8');
    for (const image of images) assert.ok(page.includes(`docker://${image} `), image);
    assert.equal(images.length, 3);
  });
});
