import { copyFileSync, cpSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { buildBundle } from '../../../scripts/build.ts';
import { tools } from '../../../src/command/tools.ts';
import { runToEnd } from './command.ts';
import { type ImagePlan, writeImage } from './image.ts';
import { copyPrograms, programPath } from './machine-files.ts';

/** As pods name the images: no registry has them, and nobody is asked for one. */
export const images = {
  driver: 'localhost/holdfast:test',
  busybox: 'localhost/busybox:test',
  pause: 'localhost/pause:test',
} as const;

/** A sidecar is its program and nothing else. */
export const sidecars = ['csi-provisioner', 'csi-snapshotter', 'csi-resizer'] as const;
export type Sidecar = (typeof sidecars)[number];

/** The image of a sidecar, as pods name it. */
export function sidecarImage(sidecar: Sidecar): string {
  return `localhost/${sidecar}:test`;
}

/** Makes every image that our pods use, as OCI archives in `directory`; their files. */
export async function makeImages(programs: string, directory: string): Promise<string[]> {
  return [
    await make(directory, { name: images.busybox }, fillWithBusybox),
    await make(directory, { name: images.pause, entrypoint: ['/bin/sleep', '2147483647'] }, fillWithBusybox),
    await make(directory, { name: images.driver, entrypoint: ['node', '/opt/holdfast/holdfast.mjs'] }, fillWithDriver),
    ...(await Promise.all(
      sidecars.map((sidecar) =>
        make(directory, { name: sidecarImage(sidecar), entrypoint: [`/${sidecar}`] }, async (root) => {
          copyFileSync(join(programs, sidecar), join(root, sidecar));
        }),
      ),
    )),
  ];
}

async function make(
  directory: string,
  plan: Omit<ImagePlan, 'root'>,
  fill: (root: string) => Promise<void>,
): Promise<string> {
  const root = mkdtempSync(join(directory, 'root-'));
  try {
    for (const name of ['etc', 'proc', 'sys', 'dev', 'tmp', 'run']) mkdirSync(join(root, name));
    await fill(root);
    const archive = `${root}.tar`;
    await writeImage({ ...plan, root }, archive);
    return archive;
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

async function fillWithBusybox(root: string): Promise<void> {
  mkdirSync(join(root, 'bin'));
  copyFileSync(await programPath('busybox'), join(root, 'bin', 'busybox'));
  await runToEnd('chroot', [root, '/bin/busybox', '--install', '-s', '/bin']);
}

/** The driver as it is shipped, with the programs and libraries of this machine. */
async function fillWithDriver(root: string): Promise<void> {
  await buildBundle(join(root, 'opt', 'holdfast'));
  const names = [...tools.map(({ program }) => program), 'git', 'setpriv', 'unshare', 'mount', 'sh', 'cat'];
  const blkid = (await runToEnd('sh', ['-c', 'ls /usr/lib/*/libblkid.so.1'])).trim();
  // Debian's /bin, /lib and so on are links to those in /usr.
  await copyPrograms(['/bin/sh', blkid, ...(await Promise.all(names.map(programPath)))], root);
  await copyPrograms([process.execPath], root, '/usr/bin/node');
  cpSync('/etc/mke2fs.conf', join(root, 'etc', 'mke2fs.conf'));
}
