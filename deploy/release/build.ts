import { copyFileSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { Usage } from '../../scripts/options.ts';
import { imageRepository, publishedAt } from '../../scripts/published.ts';
import { version } from '../../src/version.ts';
import { architectures } from '../image/architecture.ts';
import { debianArchive } from '../image/debian.ts';
import { creationTime, digestOf, installTools, type MadeImage, makeImage, projectRoot } from '../image/image.ts';
import { ImageStorage } from '../image/layers.ts';
import { chartIndex, writeChart } from './chart.ts';
import { checksums } from './checksums.ts';
import { installManifest } from './install.ts';
import { notesOf } from './notes.ts';
import { billOfMaterials } from './sbom.ts';

const usage =
  new Usage(`Makes all that a release publishes. Nothing is uploaded: .github/workflows/release.yml does that.
On Debian, as root: npm run release -- [options]
  --repository NAME        where the image is going to be (${imageRepository()})
  --output DIRECTORY       where all of it is put (dist/release)
  --locked                 refuses packages that are not in deploy/image/packages.*.lock
  --mirror URL             where Debian's packages come from
  --security-mirror URL    and their security updates
`);
const { values: options } = usage.read({
  options: {
    repository: { type: 'string', default: imageRepository() },
    output: { type: 'string', default: join(projectRoot, 'dist', 'release') },
    locked: { type: 'boolean', default: false },
    mirror: { type: 'string', default: debianArchive.mirror },
    'security-mirror': { type: 'string', default: debianArchive.securityMirror },
  },
});

async function release(directory: string, work: string): Promise<void> {
  const { repository } = options;
  const name = `${repository}:${version}`;
  const images = await makeImages(name, join(directory, `holdfast-${version}-image.tar`), work);
  const epochSeconds = creationTime();
  for (const image of images) {
    const text = billOfMaterials(image, epochSeconds);
    writeFileSync(join(directory, `holdfast-${version}-${image.architecture}.cdx.json`), text);
  }
  writeChart({
    repository,
    archive: join(directory, `holdfast-${version}.tgz`),
    work: join(work, 'chart'),
    epochSeconds,
  });
  writeFileSync(join(directory, 'index.yaml'), chartIndex(directory, publishedAt, epochSeconds));
  writeFileSync(join(directory, 'install.yaml'), installManifest(name));
  const plugin = 'kubectl-holdfast';
  copyFileSync(join(projectRoot, 'deploy', 'kubectl', plugin), join(directory, plugin));
  writeFileSync(join(directory, 'NOTES.md'), notesOf(version, { isRequired: options.locked }));
  writeFileSync(join(directory, 'SHA256SUMS'), checksums(directory));
}

/** One archive with the image of each architecture under one name (an OCI index). */
async function makeImages(name: string, archive: string, work: string): Promise<MadeImage[]> {
  installTools(architectures);
  const storage = new ImageStorage(join(work, 'storage'));
  const images: MadeImage[] = [];
  for (const architecture of architectures) {
    const image = await makeImage({
      architecture,
      archive: { mirror: options.mirror, securityMirror: options['security-mirror'] },
      lock: options.locked ? 'require' : 'tell',
      work: join(work, architecture),
    });
    storage.add({ ...image, name: `localhost/holdfast-${architecture}` });
    images.push(image);
  }
  const parts = architectures.map((architecture) => `localhost/holdfast-${architecture}`);
  storage.writeIndex(name, parts, archive);
  console.error(`release: ${name} ${digestOf(archive)}`);
  return images;
}

const output = resolve(options.output);
mkdirSync(dirname(output), { recursive: true });
const work = mkdtempSync(join(dirname(output), '.release-'));
try {
  if (process.getuid?.() !== 0) throw new Error('root is needed: files of an image have owners');
  const draft = join(work, 'release');
  mkdirSync(draft);
  await release(draft, work);
  rmSync(output, { recursive: true, force: true });
  renameSync(draft, output);
  console.log(output);
} catch (error) {
  console.error(`release: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
} finally {
  rmSync(work, { recursive: true, force: true });
}
