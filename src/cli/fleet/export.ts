import { setImmediate } from 'node:timers/promises';
import type { z } from 'zod';
import type { FleetAnswer } from '../../fleet/view/ask.ts';
import type { ViewWishes } from '../../fleet/view/request.ts';
import { parseVolumeId } from '../../volume/id.ts';
import type { Output } from '../output/output.ts';
import {
  classIsUnknown,
  type ExportedRecord,
  manifestNames,
  type PersistentVolume,
  persistentVolumeOf,
} from '../persistent-volume.ts';
import { toYaml } from '../persistent-volume-yaml.ts';
import type { itemShapes } from './shapes.ts';

type Volume = z.infer<typeof itemShapes.volumes>;

export interface FleetExportOptions extends Pick<ViewWishes, 'json' | 'reclaimPolicy' | 'storageClass' | 'volume'> {
  readonly driverName: string;
}

/**
 * Prints the PersistentVolumes of all nodes' volumes. They are made here, from what a node has reported: none can name
 * another driver, another node or a path, whatever a node says. Of two that are alike neither is printed.
 */
export async function exportFleet(
  output: Output,
  answer: FleetAnswer<Volume>,
  options: FleetExportOptions,
): Promise<Pick<FleetAnswer<Volume>, 'missing' | 'problems'>> {
  const made = [...Map.groupBy(answer.items, ({ node }) => node)].flatMap(([node, told]) => {
    const records = told.flatMap(({ item }) => recordOf(item) ?? []);
    // The same names that `holdfast export` on the node gives: only its own volumes count.
    const names = manifestNames(records);
    return records.map((record, index) => ({
      node,
      manifest: persistentVolumeOf(record, names[index] ?? record.id, { ...options, nodeId: node }),
    }));
  });
  const byName = Map.groupBy(made, ({ manifest }) => manifest.metadata.name);
  const byHandle = Map.groupBy(made, ({ manifest }) => manifest.spec.csi.volumeHandle);
  const isDouble = ({ metadata, spec }: PersistentVolume) =>
    (byName.get(metadata.name)?.length ?? 0) > 1 || (byHandle.get(spec.csi.volumeHandle)?.length ?? 0) > 1;
  const doubles = made.filter(({ manifest }) => isDouble(manifest));
  const manifests = made.map(({ manifest }) => manifest).filter((manifest) => !isDouble(manifest));
  await print(output, manifests, options);
  const problems = doubles.map(({ manifest, node }) => {
    const { metadata, spec } = manifest;
    const what = `PersistentVolume ${metadata.name} of ${spec.csi.volumeHandle}`;
    return { node, message: `${what} is not printed: another node has one of this name or volume. Choose by --node` };
  });
  return { missing: answer.missing, problems: [...answer.problems, ...problems] };
}

async function print(
  output: Output,
  manifests: readonly PersistentVolume[],
  options: FleetExportOptions,
): Promise<void> {
  if (options.json) output.line(JSON.stringify({ apiVersion: 'v1', kind: 'List', items: manifests }, undefined, 2));
  else {
    for (const manifest of manifests) {
      output.line(`---\n${toYaml(manifest).trimEnd()}`);
      // YAML takes half a millisecond for each, and a fleet has thousands: the links of its nodes are served meanwhile.
      await setImmediate();
    }
  }
  if (manifests.length > 0 && options.storageClass === undefined) output.problem('WARNING', classIsUnknown);
}

/** The record of a volume that may have a PersistentVolume at all. */
function recordOf({
  accessModes,
  content,
  ephemeral,
  name,
  parameters,
  ...volume
}: Volume): ExportedRecord | undefined {
  const id = parseVolumeId(volume.id);
  if (id === undefined || ephemeral !== undefined) return undefined;
  return { id, name, parameters, content, accessModes, sizeBytes: BigInt(volume.sizeBytes) };
}
