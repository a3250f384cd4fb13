import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import {
  imageLines,
  imageRepository,
  publishedAt,
  releasePages,
  releaseUrl,
  withImage,
  withReleaseBlocks,
} from '../../scripts/published.ts';
import { version } from '../../src/version.ts';
import { pages } from './pages.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const read = (file: string) => readFileSync(join(root, file), 'utf8');
const example = 'Example-Org/holdfast';

describe('publishedAt of package.json', () => {
  test('is followed by manifests, chart and pages (npm run version writes them)', () => {
    for (const [file, before] of imageLines) {
      assert.equal(withImage(read(file), before, publishedAt), read(file), file);
      assert.ok(read(file).includes(`${before}${imageRepository()}`), file);
    }
    for (const file of releasePages) {
      assert.match(read(file), /<!-- release: /, file);
      assert.equal(withReleaseBlocks(read(file), publishedAt, version), read(file), file);
    }
    const withBlocks = pages.map(({ file }) => file).filter((file) => read(file).includes('<!-- release: '));
    assert.deepEqual(withBlocks.sort(), [...releasePages].sort());
  });

  test('is followed by all manifests that have the image', () => {
    const images = ['localhost/holdfast', imageRepository()];
    const files = globSync('deploy/**/*.{yaml,hcl}', { cwd: root });
    const withImages = files.filter((file) => images.some((image) => read(file).includes(image)));
    assert.deepEqual(withImages.sort(), imageLines.map(([file]) => file).sort());
  });

  test('empty: each page says to build the image before anything else of the installation', () => {
    for (const file of releasePages.filter((name) => name !== 'docs/guides/upgrade.md')) {
      const [block = ''] = /(?<=<!-- release: [a-z]+ -->\n).*?(?=<!-- \/release -->)/s.exec(
        withReleaseBlocks(read(file), '', version),
      ) ?? [''];
      assert.match(block, /^\*\*Build it first\.\*\* .*npm run image -- --(load|push) /s, file);
    }
  });

  test('a repository of GitHub: nothing is left to build, and all that is named is what a release has', () => {
    for (const [file, before] of imageLines) {
      const text = withImage(read(file), before, example);
      assert.ok(text.includes(`${before}ghcr.io/example-org/holdfast`), file);
      assert.ok(!text.includes('localhost/'), file);
      assert.equal(withImage(text, before, publishedAt), read(file), `${file}: and back`);
    }
    const texts = releasePages.map((file) => withReleaseBlocks(read(file), example, version));
    for (const text of texts) assert.doesNotMatch(text, /Build it first/);
    const named = new Set(texts.join('\n').match(/https:\/\/github\.com\/Example-Org\/\S+/g));
    assert.deepEqual([...named].sort(), [
      `https://github.com/Example-Org/holdfast/releases/download/v${version}/install.yaml`,
      releaseUrl(example),
    ]);
  });

  test('a block that nobody knows is refused', () => {
    const text = '<!-- release: unknown -->\n<!-- /release -->\n';
    assert.throws(() => withReleaseBlocks(text, '', version), /there is no block unknown/);
  });
});
