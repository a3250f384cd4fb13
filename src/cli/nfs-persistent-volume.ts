import { z } from 'zod';
import { nodeKindsWith } from '../pool/kinds.ts';
import { HoldfastError } from '../volume/errors.ts';
import { parseHandle } from '../volume/handle.ts';
import { inOneSentence, parseInput } from '../volume/parse-input.ts';
import { claimRefFor, oldClaimSchema, type Successor } from './convert.ts';

const csiDriverNfs = 'nfs.csi.k8s.io';

/** PersistentVolumes in the form of kubectl: of csi-driver-nfs, of nfs-subdir-external-provisioner, or written by a person. */
const schema = z.looseObject({
  metadata: z.looseObject({ name: z.string(), labels: z.record(z.string(), z.string()).optional() }),
  spec: z.looseObject({
    nfs: z.looseObject({ server: z.string(), path: z.string(), readOnly: z.boolean().optional() }).optional(),
    csi: z
      .looseObject({ volumeAttributes: z.record(z.string(), z.string()).optional(), readOnly: z.boolean().optional() })
      .optional(),
    persistentVolumeReclaimPolicy: z.string().optional(),
    claimRef: oldClaimSchema.optional(),
    mountOptions: z.array(z.string()).optional(),
  }),
});

const kind = z.looseObject({
  kind: z.literal('PersistentVolume'),
  spec: z.looseObject({ nfs: z.unknown().optional(), csi: z.looseObject({ driver: z.string() }).optional() }),
});

const keptKeys = ['capacity', 'accessModes', 'volumeMode', 'storageClassName', 'nodeAffinity', 'mountOptions'];

/** Its successor: the same claim, and the same directory of the same server. @returns undefined: the object is none */
export function successorOfNfs(manifest: unknown): Successor | undefined {
  const any = parseInput(kind, manifest);
  if ('mistakes' in any) return undefined;
  if (any.data.spec.nfs === undefined && any.data.spec.csi?.driver !== csiDriverNfs) return undefined;
  const parsed = parseInput(schema, manifest);
  if ('mistakes' in parsed) return { mistake: `a PersistentVolume on NFS: ${inOneSentence(parsed.mistakes)}` };
  const { metadata, spec } = parsed.data;
  const { labels, name } = metadata;
  if (parseHandle(name) === undefined)
    return { mistake: `${name}: a name of more than 128 bytes can be no volumeHandle` };
  const { claimRef, csi, mountOptions = [], nfs, persistentVolumeReclaimPolicy = 'Retain' } = spec;
  const attributes =
    nfs === undefined ? attributesOf(csi?.volumeAttributes ?? {}) : { server: nfs.server, share: nfs.path };
  const mistake = mistakeIn(attributes, mountOptions);
  if (mistake !== undefined) return { mistake: `${name}: ${mistake}` };
  const isReadOnly = nfs?.readOnly === true || csi?.readOnly === true;
  return {
    warnings:
      persistentVolumeReclaimPolicy === 'Retain'
        ? []
        : [`${name}: its reclaim policy becomes Retain: nothing deletes such a volume`],
    manifest: {
      apiVersion: 'v1',
      kind: 'PersistentVolume',
      metadata: { name, ...(labels === undefined ? {} : { labels }) },
      spec: {
        ...Object.fromEntries(keptKeys.flatMap((key) => (spec[key] === undefined ? [] : [[key, spec[key]]]))),
        persistentVolumeReclaimPolicy: 'Retain',
        ...claimRefFor(claimRef),
        csi: {
          driver: 'files.holdfast.csi.dev',
          volumeHandle: name,
          ...(isReadOnly ? { readOnly: true } : {}),
          volumeAttributes: attributes,
        },
      },
    },
  };
}

/** csi-driver-nfs takes its keys in any case, and adds those of the provisioner. */
function attributesOf(given: Readonly<Record<string, string>>): Record<string, string> {
  const of = (key: string) => Object.entries(given).find(([each]) => each.toLowerCase() === key.toLowerCase())?.[1];
  const known = ['server', 'share', 'subDir', 'mountPermissions'].flatMap((key) => {
    const value = of(key);
    return value === undefined || value === '' ? [] : [[key, value]];
  });
  return Object.fromEntries(known);
}

function mistakeIn(attributes: Readonly<Record<string, string>>, mountOptions: readonly string[]): string | undefined {
  if (Object.values(attributes).some((value) => value.includes('${'))) {
    return 'subDir has a placeholder: write the directory that the volume has on the server';
  }
  // The version decides if it can be mounted at all; the others are checked when it is.
  const versions = mountOptions.flatMap((word) => word.split(',')).filter((word) => /^(nfs)?vers=/.test(word.trim()));
  const options = versions.length === 0 ? {} : { mountOptions: versions.join(',') };
  try {
    const nfs = nodeKindsWith(new Map()).find((each) => each.name === 'nfs');
    nfs?.read({ ...attributes, ...options }, { access: 'mount', fsType: undefined });
    return undefined;
  } catch (error) {
    if (error instanceof HoldfastError) return error.message;
    throw error;
  }
}
