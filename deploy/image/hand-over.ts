import { execFileSync } from 'node:child_process';

/** Programs that bring an archive to where a cluster's nodes find the image, by the name that one would use for the cluster. */
const loaders: Readonly<Record<string, (archive: string) => readonly string[]>> = {
  kind: (archive) => ['kind', 'load', 'image-archive', archive],
  k3s: (archive) => ['k3s', 'ctr', 'images', 'import', archive],
  microk8s: (archive) => ['microk8s', 'ctr', 'image', 'import', archive],
  minikube: (archive) => ['minikube', 'image', 'load', archive],
  containerd: (archive) => ['ctr', '-n', 'k8s.io', 'images', 'import', archive],
};

export const clusters: readonly string[] = Object.keys(loaders);

/** The command that loads the image into a cluster of this machine; undefined: there is no such sort of cluster. */
export function loadCommand(cluster: string, archive: string): readonly string[] | undefined {
  return loaders[cluster]?.(archive);
}

/** The command that pushes the image to a registry, and the name that it has there. */
export function pushCommand(registry: string, archive: string, version: string) {
  const name = `${registry.replace(/\/+$/, '')}/holdfast:${version}`;
  return { name, command: ['skopeo', 'copy', `oci-archive:${archive}`, `docker://${name}`] } as const;
}

/** @throws Error if the program is not there or fails; its output is shown */
export function handOver([program = '', ...args]: readonly string[]): void {
  console.log(`${program} ${args.join(' ')}`);
  try {
    execFileSync(program, args, { stdio: 'inherit' });
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') {
      throw new Error(`there is no ${program} on this machine; the archive is there`);
    }
    throw new Error(`${program} failed; the archive is there`);
  }
}
