import { writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { hostDirectories } from '../host-directories.ts';
import { images, machineImages } from '../images.ts';
import type { Kubectl } from '../kubectl.ts';

const projectRoot = fileURLToPath(new URL('../../../..', import.meta.url));

/** Directories of manifests, as an operator gives them to `kubectl apply -k`. */
export interface ManifestPlan {
  readonly parts: readonly string[];
  /** Where they are: this project, unless it is said. */
  readonly root?: string;
  /** The driver's image; the one of this project, unless it is said. */
  readonly image?: string;
}

/** A cluster that manifests are made for. */
interface ManifestPlace {
  readonly kubectl: Kubectl;
  /** Where drivers keep their volumes, as each node has it. */
  readonly dataDirectory: string;
  /** A directory of the cluster. */
  makeDirectory(name: string): string;
}

/** What `kubectl kustomize` makes of them, with images of this machine and a data directory of the cluster's own. */
export function manifestsFor(
  { dataDirectory, kubectl, makeDirectory }: ManifestPlace,
  { image = images.driver, parts, root = projectRoot }: ManifestPlan,
): Promise<string> {
  const overlay = makeDirectory('overlay');
  // Relative, because kustomize takes no other.
  const fromOverlay = (path: string) => relative(overlay, join(root, path));
  const patch = {
    apiVersion: 'apps/v1',
    kind: 'DaemonSet',
    metadata: { name: 'holdfast' },
    spec: { template: { spec: { volumes: hostDirectories(dataDirectory) } } },
  };
  const kustomization = {
    resources: parts.map(fromOverlay),
    components: [fromOverlay('deploy/inline-volumes/component')],
    images: machineImages(image),
    patches: [{ target: { kind: 'DaemonSet' }, patch: JSON.stringify(patch) }],
  };
  writeFileSync(join(overlay, 'kustomization.yaml'), JSON.stringify(kustomization));
  return kubectl.run(['kustomize', '--load-restrictor=LoadRestrictionsNone', overlay]);
}
