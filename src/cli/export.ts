import type { Config } from '../config/config.ts';
import { claimOf } from '../volume/claim.ts';
import { findVolume } from './look/find-volume.ts';
import { lookedIn, problemsOf } from './look/inventory.ts';
import { lookAtPools } from './look/look.ts';
import { exitCodes, type Output, toJson } from './output/output.ts';
import {
  classIsUnknown,
  manifestNames,
  type PersistentVolume,
  persistentVolumeOf,
  type ReclaimPolicy,
} from './persistent-volume.ts';
import { toYaml } from './persistent-volume-yaml.ts';

export interface ExportOptions {
  readonly json: boolean;
  /** The id, the name or `namespace/claim` of the one volume that is wanted. */
  readonly wanted: string | undefined;
  readonly reclaimPolicy: ReclaimPolicy;
  readonly storageClass: string | undefined;
}

/** `holdfast export [VOLUME]`: the PersistentVolumes of this node's volumes, from the records alone. */
export async function exportCommand(config: Config, output: Output, options: ExportOptions): Promise<number> {
  const pools = await lookAtPools(config, 'records');
  const problems = pools.flatMap(problemsOf);
  for (const problem of problems) output.problem('UNAVAILABLE', problem);
  const records = pools
    .flatMap(({ config: { name: pool }, contents }) => (contents?.records ?? []).map((record) => ({ pool, record })))
    // They live no longer than their pod, and have no PersistentVolume.
    .filter(({ record }) => record.ephemeral === undefined);
  // The names are made for all of them, even if one is wanted: its name is the same either way.
  const names = manifestNames(records.map(({ record }) => record));
  const volumes = records.map(({ pool, record }, index) => {
    const { id, name } = record;
    return { id, name, claim: claimOf(record), pool, record, manifestName: names[index] ?? id };
  });
  const { wanted } = options;
  const exported = wanted === undefined ? volumes : [findVolume(volumes, wanted, lookedIn(pools))];
  // An id means exactly one volume, even if some pools could not be read; two volumes may share a name or a claim.
  const isMeant = wanted !== undefined && exported.every(({ id }) => id === wanted);
  const isWhole = problems.length === 0 || isMeant;
  const manifests = exported.map(({ manifestName, record }) =>
    persistentVolumeOf(record, manifestName, { ...config, ...options }),
  );
  if (options.json) output.line(toJson<'export'>({ apiVersion: 'v1', kind: 'List', items: manifests.map(asItem) }));
  else for (const manifest of manifests) output.line(`---\n${toYaml(manifest).trimEnd()}`);
  if (manifests.length > 0 && options.storageClass === undefined) output.problem('WARNING', classIsUnknown);
  return isWhole ? exitCodes.ok : exitCodes.failed;
}

function asItem(manifest: PersistentVolume): Readonly<Record<string, unknown>> {
  return { ...manifest };
}
