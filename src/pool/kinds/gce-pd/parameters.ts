import { z } from 'zod';
import { InvalidArgument, OutOfRange } from '../../../volume/errors.ts';
import { parseInput } from '../../../volume/parse-input.ts';
import { readLabels } from './labels.ts';

const types = [
  'pd-standard',
  'pd-balanced',
  'pd-ssd',
  'pd-extreme',
  'hyperdisk-balanced',
  'hyperdisk-extreme',
  'hyperdisk-throughput',
  'hyperdisk-ml',
] as const;

/** The parameters of classes, by the names that gcp-compute-persistent-disk-csi-driver has for them. */
const schema = z.looseObject({
  type: z.enum(types).default('pd-standard'),
  'replication-type': z.string().optional(),
  'disk-encryption-kms-key': z
    .string()
    .regex(
      /^projects\/[^/\s]+\/locations\/[^/\s]+\/keyRings\/[^/\s]+\/cryptoKeys\/[^/\s]+(\/cryptoKeyVersions\/[0-9]+)?$/,
      {
        error: 'must be projects/PROJECT/locations/PLACE/keyRings/RING/cryptoKeys/KEY',
      },
    )
    .optional(),
  labels: z.string().max(4096).optional(),
  'provisioned-iops-on-create': z
    .string()
    .regex(/^[1-9][0-9]{0,6}$/, { error: 'must be a whole number' })
    .optional(),
  'provisioned-throughput-on-create': z
    .string()
    .regex(/^[1-9][0-9]{0,6}Mi$/, { error: 'must be a number of MiB a second, such as 250Mi' })
    .optional(),
});

export const gceParameters = [
  'type',
  'replication-type',
  'disk-encryption-kms-key',
  'labels',
  'provisioned-iops-on-create',
  'provisioned-throughput-on-create',
] as const;

/** The part of a new disk that a class decides. */
export interface GceParameters {
  readonly type: (typeof types)[number];
  readonly kmsKey: string | undefined;
  readonly labels: Readonly<Record<string, string>>;
  readonly iops: string | undefined;
  /** In MiB a second. */
  readonly throughput: string | undefined;
}

const gibibyte = 1n << 30n;
const mebibyte = 'Mi';
const usualLimitsGiB = [1n, 65_536n] as const;
/** The sizes that the types have (Compute Engine: disk types). */
const limitsGiB: Readonly<Record<string, readonly [minimum: bigint, maximum: bigint]>> = {
  'pd-extreme': [500n, 65_536n],
  'hyperdisk-balanced': [4n, 65_536n],
  'hyperdisk-extreme': [64n, 65_536n],
  'hyperdisk-throughput': [2048n, 32_768n],
  'hyperdisk-ml': [4n, 65_536n],
};
const withIops = ['pd-extreme', 'hyperdisk-balanced', 'hyperdisk-extreme'];
const withThroughput = ['hyperdisk-balanced', 'hyperdisk-throughput', 'hyperdisk-ml'];

/** @throws InvalidArgument that names the parameter, OutOfRange */
export function parseGceParameters(parameters: Readonly<Record<string, string>>, sizeBytes: bigint): GceParameters {
  const parsed = parseInput(schema, { ...parameters });
  if ('mistakes' in parsed) throw mistake(parsed.mistakes.join('; ').replace(/\.$/, ''));
  const { labels: text = '', type, ...rest } = parsed.data;
  const iops = rest['provisioned-iops-on-create'];
  const throughput = rest['provisioned-throughput-on-create'];
  const replication = rest['replication-type'] ?? 'none';
  if (replication !== 'none') {
    throw mistake(
      `replication-type ${replication} is not supported: a disk is in one zone here (replication-type: none)`,
    );
  }
  if (iops !== undefined && !withIops.includes(type)) throw mistake(`${type} has no provisioned-iops-on-create`);
  if (throughput !== undefined && !withThroughput.includes(type)) {
    throw mistake(`${type} has no provisioned-throughput-on-create`);
  }
  const labels = readLabels(text);
  if (typeof labels === 'string') throw mistake(`labels: ${labels}`);
  const sizeGiB = (sizeBytes + gibibyte - 1n) / gibibyte;
  const [minimumGiB, maximumGiB] = limitsGiB[type] ?? usualLimitsGiB;
  if (sizeGiB < minimumGiB || sizeGiB > maximumGiB) {
    throw new OutOfRange(`A disk of type ${type} has ${minimumGiB} to ${maximumGiB} GiB, not ${sizeGiB} GiB.`);
  }
  return { type, kmsKey: rest['disk-encryption-kms-key'], labels, iops, throughput: throughput?.replace(mebibyte, '') };
}

function mistake(words: string): InvalidArgument {
  return new InvalidArgument(`Parameters of a gce-pd volume: ${words}.`);
}
