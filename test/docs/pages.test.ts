import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { objectsOf } from '../deploy/objects.ts';
import { cannotRun, pages, runnable, untyped } from './pages.ts';
import { supportPage } from './tried.ts';

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
    const { commands, file } = page;
    test(`${file} has the commands that are not run, and a reason`, () => {
      for (const command of untyped(page))
        assert.ok(commands.includes(command), `there is no such command: ${command}`);
      assert.ok(untyped(page).length === 0 || cannotRun[file]?.why !== '', 'there is no reason');
    });
  }

  test('what was tried stands in docs/support.md (node test/docs/tried.ts writes it), and nowhere else', () => {
    assert.equal(readFileSync(join(root, 'docs/support.md'), 'utf8'), supportPage());
    for (const { file } of pages) {
      assert.doesNotMatch(readFileSync(join(root, file), 'utf8'), /^## What was tried/m, file);
    }
  });

  test('have commands that are run', () => {
    assert.ok(pages.flatMap(runnable).length >= 50, `${pages.flatMap(runnable).length}`);
  });

  test('production.md shows the values that deploy/examples/values/production.yaml has', () => {
    const [shown] = /(?<=```yaml\n).*?(?=```)/s.exec(readFileSync(join(root, 'docs/production.md'), 'utf8')) ?? [];
    const values = readFileSync(join(root, 'deploy/examples/values/production.yaml'), 'utf8');
    assert.equal(values.replace(/^#.*\n/, ''), shown);
  });

  test('name the images that the manifests name', () => {
    const daemonSet = objectsOf(readFileSync(join(root, 'deploy/base/daemon-set.yaml'), 'utf8'));
    const images = JSON.stringify([...daemonSet.values()]).match(/registry\.k8s\.io\/[^"]*/g) ?? [];
    const page = readFileSync(join(root, 'docs/guides/air-gapped.md'), 'utf8');
    for (const image of images) assert.ok(page.includes(`docker://${image} `), image);
    assert.equal(images.length, 3);
  });
});
