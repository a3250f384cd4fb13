import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { z } from 'zod';
import { makeDriverImage } from '../../cluster/harness/images.ts';
import type { Scratch } from '../../support/scratch.ts';
import { unpackImage } from '../../support/unpack-image.ts';

const daemonSet = fileURLToPath(new URL('../../../deploy/base/daemon-set.yaml', import.meta.url));

const volume = z.object({
  name: z.string(),
  hostPath: z.object({ path: z.string(), type: z.string() }).optional(),
  emptyDir: z.object({}).optional(),
});
const mount = z.object({
  name: z.string(),
  mountPath: z.string(),
  mountPropagation: z.literal('Bidirectional').optional(),
});
const manifest = z.object({
  spec: z.object({
    template: z.object({
      spec: z.object({
        hostPID: z.literal(true),
        containers: z.tuple(
          [
            z.object({
              name: z.literal('holdfast'),
              securityContext: z.object({ privileged: z.literal(true), readOnlyRootFilesystem: z.literal(true) }),
              volumeMounts: z.array(mount),
            }),
          ],
          z.unknown(),
        ),
        volumes: z.array(volume),
      }),
    }),
  }),
});

/** Where a node in the virtual machine has what the manifest names: on its own disk. */
const places: Readonly<Record<string, string>> = {
  '/var/lib/kubelet': '/data/kubelet',
  '/var/lib/holdfast': '/data/holdfast',
};
/** What the manifest does not mount: the configuration of these tests lies there, and their driver's socket. */
const ownMounts = ['/var/tmp', '/run/holdfast'];

/**
 * Makes a program that runs the driver as a container of our DaemonSet has it: the image as its root, read-only; mount, IPC
 * and UTS namespaces of its own, and the node's processes; of the node what the manifest mounts.
 * @returns the words that it is started with in the virtual machine
 */
export async function makePod(scratch: Scratch): Promise<string> {
  const { config, root } = await unpackImage(await makeDriverImage(), scratch.join('image'));
  const script = scratch.join('pod.sh');
  writeFileSync(script, podScript(root));
  return `bash ${script} ${config.Entrypoint.join(' ')}`;
}

function podScript(image: string): string {
  const { containers, volumes } = manifest.parse(parse(readFileSync(daemonSet, 'utf8'))).spec.template.spec;
  const mounts = containers[0].volumeMounts.flatMap(({ mountPath, mountPropagation, name }) => {
    const source = volumes.find((each) => each.name === name);
    const target = places[mountPath] ?? mountPath;
    if (source?.emptyDir !== undefined) return [{ target, lines: [`mount -t tmpfs tmpfs $r${target}`] }];
    if (source?.hostPath === undefined) return [];
    const { path, type } = source.hostPath;
    const from = places[path] ?? path;
    const made = type === 'DirectoryOrCreate' ? [`mkdir -p ${from}`] : [];
    const slave = mountPropagation === undefined ? [`mount --make-rslave $r${target}`] : [];
    return [{ target, lines: [...made, `mount --rbind ${from} $r${target}`, ...slave] }];
  });
  const own = ownMounts.map((target) => ({ target, lines: [`mount --bind ${target} $r${target}`] }));
  const all = [...mounts, ...own];
  return `
# What it is told is told in its environment; udev is what it finds itself.
unset DM_DISABLE_UDEV
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mkdir -p /run/pod
exec unshare --mount --ipc --uts --propagation unchanged bash -ec '
  mount -t tmpfs pod /run/pod
  mount --make-private /run/pod
  mkdir /run/pod/upper /run/pod/work /run/pod/root
  r=/run/pod/root
  mount -t overlay -o lowerdir=${image},upperdir=/run/pod/upper,workdir=/run/pod/work overlay $r
  mkdir -p ${[...all.map(({ target }) => target), '/old'].map((path) => `$r${path}`).join(' ')}
  mount -o remount,ro $r
  mount -t proc proc $r/proc
  mount -t sysfs sysfs $r/sys
  ${all.flatMap(({ lines }) => lines).join('\n  ')}
  cd $r
  pivot_root . old
  # What is undone in here must not be undone for the node.
  mount --make-rslave /old
  umount --lazy /old
  cd /
  exec "$@"
' bash "$@"
`;
}
