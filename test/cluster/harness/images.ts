import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { imageRepository } from '../../../scripts/published.ts';
import { programPath, runToEnd } from './command.ts';
import { type ImagePlan, writeImage } from './image.ts';

/** As pods name the images: no registry has them, and nobody is asked for one. */
export const images = {
  driver: 'localhost/holdfast:test',
  busybox: 'localhost/busybox:test',
  pause: 'localhost/pause:test',
} as const;

/** A sidecar's image is its program and nothing else. */
export const sidecars = ['csi-provisioner', 'csi-snapshotter', 'csi-resizer'] as const;
/** Of volumes that nodes reach over a network. */
export const networkSidecars = [...sidecars, 'csi-attacher'] as const;
export type Sidecar = (typeof networkSidecars)[number];

/** The image of a sidecar, as pods name it. */
export function sidecarImage(sidecar: Sidecar): string {
  return `localhost/${sidecar}:test`;
}

/** What kustomize puts in the place of the images that our manifests name. */
export function machineImages(driver: string = images.driver): object[] {
  const renamed = (name: string, image: string) => {
    const [newName, newTag] = image.split(':');
    return { name, newName, newTag };
  };
  return [
    renamed(imageRepository(), driver),
    ...networkSidecars.map((name) => renamed(`registry.k8s.io/sig-storage/${name}`, sidecarImage(name))),
  ];
}

const projectRoot = fileURLToPath(new URL('../../..', import.meta.url));

/** Makes the images of our pods as OCI archives in `directory`; their files. */
export async function makeImages(
  programs: string,
  directory: string,
  wanted: readonly Sidecar[] = sidecars,
): Promise<string[]> {
  const archives = [
    await makeImage(directory, { name: images.busybox }, fillWithBusybox),
    await makeImage(directory, { name: images.pause, entrypoint: ['/bin/sleep', '2147483647'] }, fillWithBusybox),
  ];
  for (const sidecar of wanted) {
    const fill = (root: string) => copyFileSync(join(programs, sidecar), join(root, sidecar));
    archives.push(await makeImage(directory, { name: sidecarImage(sidecar), entrypoint: [`/${sidecar}`] }, fill));
  }
  return archives;
}

/** Makes one image of what `fill` puts into its root directory. */
export async function makeImage(
  directory: string,
  plan: Omit<ImagePlan, 'root'>,
  fill: (root: string) => Promise<void> | void,
): Promise<string> {
  const root = mkdtempSync(join(directory, 'root-'));
  await fill(root);
  const archive = `${root}.tar`;
  await writeImage({ ...plan, root }, archive);
  rmSync(root, { recursive: true });
  return archive;
}

/** busybox with its applets, and a root filesystem around it. */
export async function fillWithBusybox(root: string): Promise<void> {
  for (const name of ['bin', 'etc', 'tmp', 'proc', 'sys', 'dev']) mkdirSync(join(root, name));
  copyFileSync(await programPath('busybox'), join(root, 'bin', 'busybox'));
  await runToEnd('chroot', [root, '/bin/busybox', '--install', '-s', '/bin']);
}

/** The driver's image as it is shipped, made anew if one of its sources has changed since the last time. */
export async function makeDriverImage(): Promise<string> {
  const archive = join(projectRoot, '.cache', 'image', 'cluster.tar');
  const madeMs = statSync(archive, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  if (lastChangeMs(['src', 'deploy/image', 'scripts/build.ts', 'package-lock.json']) > madeMs) {
    console.error("cluster: making the driver's image (a minute)");
    const parameters = ['--name', images.driver, '--output', archive];
    await runToEnd(process.execPath, [join(projectRoot, 'deploy', 'image', 'build.ts'), ...parameters]);
  }
  return archive;
}

function lastChangeMs(paths: readonly string[]): number {
  const files = paths
    .map((path) => join(projectRoot, path))
    .flatMap((path) =>
      statSync(path).isDirectory()
        ? readdirSync(path, { recursive: true, encoding: 'utf8' }).map((name) => join(path, name))
        : [path],
    );
  return Math.max(...files.map((file) => statSync(file).mtimeMs));
}
