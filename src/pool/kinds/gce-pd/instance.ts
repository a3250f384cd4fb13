import { zoneKey } from '../../../volume/topology.ts';
import type { Instance } from '../../cloud-disk/instance.ts';
import type { Environment } from './compute/credentials.ts';
import { GceMetadata } from './compute/metadata.ts';

/** Kubernetes' own key, and that of the vendor's driver, which classes and PersistentVolumes may name. */
export const gceZoneKeys: readonly string[] = [zoneKey, 'topology.gke.io/zone'];

/** Asks the metadata service for this machine. @throws NoAnswer, Unavailable */
export async function readInstance(environment: Environment): Promise<Instance> {
  const metadata = new GceMetadata(environment['GCE_METADATA_HOST']);
  const [project, place, name, type] = await Promise.all(
    ['project/project-id', 'instance/zone', 'instance/name', 'instance/machine-type'].map((path) =>
      metadata.require(path),
    ),
  );
  const zone = lastOf(place);
  const id = `projects/${project}/zones/${zone}/instances/${name}`;
  return { id, zone, zoneKeys: gceZoneKeys, maxVolumes: placesFor(lastOf(type)) };
}

const small = ['f1-micro', 'g1-small', 'e2-micro', 'e2-small', 'e2-medium'];

/** By family: the volumes beside the boot disk up to a number of processors (Compute Engine: machine types, disk limits). */
const byProcessors: Readonly<Record<string, readonly (readonly [processors: number, volumes: number])[]>> = {
  c4: [
    [2, 7],
    [4, 15],
    [24, 31],
    [48, 63],
    [Infinity, 127],
  ],
  c4a: [
    [2, 7],
    [8, 15],
    [48, 31],
    [Infinity, 63],
  ],
  c4d: [
    [2, 3],
    [4, 7],
    [8, 15],
    [96, 31],
    [192, 63],
    [Infinity, 127],
  ],
  n4: [
    [8, 15],
    [Infinity, 31],
  ],
  n4a: [
    [8, 15],
    [Infinity, 31],
  ],
  n4d: [
    [8, 15],
    [Infinity, 31],
  ],
};
const usualPlaces = 127;
const smallPlaces = 15;

/** The volumes that a type of machine can have beside its boot disk. */
export function placesFor(machineType: string): number {
  if (small.includes(machineType)) return smallPlaces;
  const [family = '', , processors = ''] = machineType.split('-');
  const steps = Object.hasOwn(byProcessors, family) ? byProcessors[family] : undefined;
  if (steps === undefined) return usualPlaces;
  const count = Number.parseInt(processors, 10);
  return (steps.find(([atMost]) => count <= atMost) ?? steps[0])?.[1] ?? usualPlaces;
}

function lastOf(path: string | undefined): string {
  return path?.slice(path.lastIndexOf('/') + 1) ?? '';
}
