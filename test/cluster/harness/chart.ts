import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { chart, type Values } from '../../deploy/helm.ts';
import { runDirectoryOf } from './host-directories.ts';
import { images, type Sidecar, sidecarImage } from './images.ts';

/** The cluster that a copy of our chart is for. */
interface ChartPlace {
  /** A directory of the cluster. */
  makeDirectory(...parts: string[]): string;
  /** Where its drivers have their volumes. */
  readonly dataDirectory: string;
  /** Whether pods have addresses; else the driver is on the machine's network, to reach the API server. */
  readonly hasPodNetwork: boolean;
}

/** A copy of our chart, made for a cluster as `Driver` and `FleetDriver` make our manifests. */
export function makeChart({ dataDirectory, hasPodNetwork, makeDirectory }: ChartPlace): string {
  const copy = makeDirectory('chart', 'holdfast');
  cpSync(chart, copy, { recursive: true });
  const file = join(copy, 'templates', 'daemon-set.yaml');
  const changes: [string, string][] = [
    ['path: {{ .Values.dataDir }}\n            type: DirectoryOrCreate', `path: ${dataDirectory}`],
    ['path: /run/holdfast\n', `path: ${runDirectoryOf(dataDirectory)}\n`],
    ...(hasPodNetwork
      ? []
      : [['      hostPID:', '      hostNetwork: true\n      hostPID:'] satisfies [string, string]]),
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
