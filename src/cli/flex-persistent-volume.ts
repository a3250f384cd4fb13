import { z } from 'zod';
import { parseHandle } from '../volume/handle.ts';
import { inOneSentence, parseInput } from '../volume/parse-input.ts';
import { claimRefFor, type OldClaim, oldClaimSchema } from './convert.ts';

/** A PersistentVolume of a FlexVolume driver, as far as it matters for its successor. */
export interface FlexPersistentVolume {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>> | undefined;
  /** The parts of its spec that stay as they are. */
  readonly kept: Readonly<Record<string, unknown>>;
  readonly claim: OldClaim | undefined;
  readonly reclaimPolicy: string;
  readonly mountOptions: boolean;
  readonly flex: z.infer<typeof flexVolume>;
}

const flexVolume = z.looseObject({
  driver: z.string(),
  fsType: z.string().optional(),
  readOnly: z.boolean().optional(),
  options: z.record(z.string(), z.string()).optional(),
  secretRef: z.looseObject({ name: z.string(), namespace: z.string().optional() }).optional(),
});

const schema = z.looseObject({
  metadata: z.looseObject({ name: z.string(), labels: z.record(z.string(), z.string()).optional() }),
  spec: z.looseObject({
    flexVolume,
    persistentVolumeReclaimPolicy: z.string().optional(),
    claimRef: oldClaimSchema.optional(),
    mountOptions: z.array(z.string()).optional(),
  }),
});

const keptKeys = ['capacity', 'accessModes', 'volumeMode', 'storageClassName', 'nodeAffinity'];

/** @returns undefined: the object is none; or the mistake in it */
export function readFlexVolume(manifest: unknown): FlexPersistentVolume | { readonly mistake: string } | undefined {
  const kind = z.looseObject({ kind: z.literal('PersistentVolume'), spec: z.looseObject({ flexVolume: z.unknown() }) });
  const any = parseInput(kind, manifest);
  if ('mistakes' in any || any.data.spec.flexVolume === undefined) return undefined;
  const parsed = parseInput(schema, manifest);
  if ('mistakes' in parsed) return { mistake: `a PersistentVolume with flexVolume: ${inOneSentence(parsed.mistakes)}` };
  const { metadata, spec } = parsed.data;
  const { name } = metadata;
  if (parseHandle(name) === undefined)
    return { mistake: `${name}: a name of more than 128 bytes can be no volumeHandle` };
  const { claimRef, flexVolume: flex, mountOptions = [], persistentVolumeReclaimPolicy = 'Retain' } = spec;
  return {
    ...{ name, labels: metadata.labels, flex, reclaimPolicy: persistentVolumeReclaimPolicy },
    kept: Object.fromEntries(keptKeys.flatMap((key) => (spec[key] === undefined ? [] : [[key, spec[key]]]))),
    claim: claimRef,
    mountOptions: mountOptions.length > 0,
  };
}

export interface Conversion {
  readonly program: string | undefined;
  readonly device: boolean;
}

/** Its successor: the same claim, and the program gets the same options, names and Secret (docs/exec.md). */
export function persistentVolumeOfFlex(
  { claim, flex, kept, labels, name }: FlexPersistentVolume,
  { device, program }: Conversion,
): Record<string, unknown> {
  const { driver, fsType, options = {}, readOnly, secretRef } = flex;
  const usualProgram = driver.slice(driver.lastIndexOf('/') + 1).toLowerCase();
  const namespace = secretRef?.namespace ?? claim?.namespace ?? 'default';
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolume',
    metadata: { name, ...(labels === undefined ? {} : { labels }) },
    spec: {
      ...kept,
      persistentVolumeReclaimPolicy: 'Retain',
      ...claimRefFor(claim),
      csi: {
        driver: device ? 'disks.holdfast.csi.dev' : 'files.holdfast.csi.dev',
        volumeHandle: name,
        ...(device && fsType !== undefined ? { fsType } : {}),
        ...(readOnly === true ? { readOnly } : {}),
        volumeAttributes: {
          kind: 'exec',
          program: program ?? usualProgram,
          ...(!device && fsType !== undefined ? { fsType } : {}),
          ...(readOnly === true ? { readOnly: 'true' } : {}),
          ...Object.fromEntries(Object.entries(options).map(([key, value]) => [`options.${key}`, value])),
        },
        ...(secretRef === undefined ? {} : { nodeStageSecretRef: { namespace, name: secretRef.name } }),
      },
    },
  };
}
