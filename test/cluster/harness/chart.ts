import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { chart, type Values } from '../../deploy/helm.ts';
import type { ClusterDirectory } from './directory.ts';
import type { Driver } from './driver.ts';
import { images, type Sidecar, sidecarImage } from './images.ts';

/**
 * A copy of our chart for this cluster, as `Driver` makes one of our manifests: on the machine's network, as pods have none
 * of their own here, and with the data directory of this cluster.
 */
export function makeChart(directory: ClusterDirectory, driver: Driver): string {
  const copy = directory.makeDirectory('chart', 'holdfast');
  cpSync(chart, copy, { recursive: true });
  const file = join(copy, 'templates', 'daemon-set.yaml');
  const changes: [string, string][] = [
    ['      hostPID:', '      hostNetwork: true\n      hostPID:'],
    ['path: {{ .Values.dataDir }}\n            type: DirectoryOrCreate', `path: ${driver.dataDirectory}`],
  ];
  const text = changes.reduce(
    (before, [from, to]) => {
      if (before.split(from).length !== 2) throw new Error(`${file} has '${from}' not once: change it here, too`);
      return before.replace(from, to);
    },
    readFileSync(file, 'utf8'),
  );
  writeFileSync(file, text);
  return copy;
}

/** The images of this machine, which come from no registry. */
export function chartValues(image: string = images.driver): Values {
  const [repository, tag] = image.split(':');
  const sidecar = (name: Sidecar) => ({ image: sidecarImage(name) });
  return {
    image: { repository, tag, pullPolicy: 'Never' },
    sidecars: {
      provisioner: sidecar('csi-provisioner'),
      snapshotter: sidecar('csi-snapshotter'),
      resizer: sidecar('csi-resizer'),
    },
  };
}
