/*
 * There is no Containerfile: an image of chosen files has no base to name and nothing to RUN, and every line of this
 * works where no registry can be reached. Nothing of another architecture is run, so any machine makes images for all.
 */
import { mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { Usage } from '../../scripts/options.ts';
import { imageRepository } from '../../scripts/published.ts';
import { version } from '../../src/version.ts';
import { ownArchitecture, parseArchitecture } from './architecture.ts';
import { debianArchive } from './debian.ts';
import { clusters, handOver, loadCommand, pushCommand } from './hand-over.ts';
import { describeArchive, digestOf, installTools, makeImage, projectRoot } from './image.ts';
import { ImageStorage } from './layers.ts';

const usage = new Usage(`Makes the container image, as an OCI archive. On Debian, as root: npm run image -- [options]
  --architecture NAME      amd64 or arm64, on any machine (that of this machine)
  --output FILE            the archive (.cache/image/holdfast.tar)
  --name NAME              what the image is called (${imageRepository()}:${version})
  --load CLUSTER           loads it into a cluster of this machine: kind, k3s, microk8s, minikube, or containerd
  --push REGISTRY          pushes it to REGISTRY/holdfast:${version}, with skopeo
  --locked                 refuses packages that are not in deploy/image/packages.*.lock
  --update-lock            writes that file
  --mirror URL             where Debian's packages come from
  --security-mirror URL    and their security updates
`);
const { values: options } = usage.read({
  options: {
    architecture: { type: 'string' },
    output: { type: 'string', default: join(projectRoot, '.cache', 'image', 'holdfast.tar') },
    name: { type: 'string', default: `${imageRepository()}:${version}` },
    load: { type: 'string' },
    push: { type: 'string' },
    locked: { type: 'boolean', default: false },
    'update-lock': { type: 'boolean', default: false },
    mirror: { type: 'string', default: debianArchive.mirror },
    'security-mirror': { type: 'string', default: debianArchive.securityMirror },
  },
});

const startedMs = performance.now();
const archive = resolve(options.output);
const loading = options.load === undefined ? undefined : loadCommand(options.load, archive);
if (options.load !== undefined && loading === undefined) usage.refuse(`--load wants one of ${clusters.join(', ')}`);
mkdirSync(dirname(archive), { recursive: true });
// Beside the result: /tmp may be memory.
const work = mkdtempSync(join(dirname(archive), '.build-'));
try {
  if (process.getuid?.() !== 0) throw new Error('root is needed: files of an image have owners');
  const architecture = options.architecture === undefined ? ownArchitecture() : parseArchitecture(options.architecture);
  installTools([architecture]);
  const image = await makeImage({
    architecture,
    archive: { mirror: options.mirror, securityMirror: options['security-mirror'] },
    lock: options['update-lock'] ? 'update' : options.locked ? 'require' : 'tell',
    work: join(work, 'image'),
  });
  const storage = new ImageStorage(join(work, 'storage'));
  storage.add({ ...image, name: options.name });
  const draft = join(work, 'image.tar');
  storage.writeArchive(options.name, draft);
  renameSync(draft, archive);
  const seconds = Math.round((performance.now() - startedMs) / 1000);
  console.log(`${describeArchive(archive)}  ${seconds} s\n${options.name} ${digestOf(archive)}\n${archive}`);
  if (loading !== undefined) handOver(loading);
  if (options.push !== undefined) {
    const { command, name } = pushCommand(options.push, archive, version);
    handOver(command);
    console.log(`Helm: --set image.repository=${name.slice(0, name.lastIndexOf(':'))}`);
  }
} catch (error) {
  console.error(`image: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
} finally {
  rmSync(work, { recursive: true, force: true });
}
