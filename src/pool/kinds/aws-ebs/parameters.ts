import { z } from 'zod';
import { InvalidArgument, OutOfRange } from '../../../volume/errors.ts';
import { parseInput } from '../../../volume/parse-input.ts';

/** The parameters of classes, by the names that aws-ebs-csi-driver has for them. */
const schema = z.looseObject({
  type: z.enum(['gp3', 'gp2', 'io1', 'io2', 'st1', 'sc1', 'standard']).default('gp3'),
  iops: wholeNumber().optional(),
  iopsPerGB: wholeNumber().optional(),
  throughput: wholeNumber().optional(),
  encrypted: z.enum(['true', 'false']).optional(),
  kmsKeyId: z
    .string()
    .regex(/^[!-~]{1,256}$/, { error: 'must be the id or ARN of a key' })
    .optional(),
});

function wholeNumber() {
  return z.string().regex(/^[1-9][0-9]{0,6}$/, { error: 'must be a whole number' });
}

export const ebsParameters = ['type', 'iops', 'iopsPerGB', 'throughput', 'encrypted', 'kmsKeyId'] as const;

/** The values of CreateVolume that a class decides. */
export interface EbsParameters {
  readonly VolumeType: string;
  readonly Iops?: string;
  readonly Throughput?: string;
  readonly Encrypted?: string;
  readonly KmsKeyId?: string;
}

const gibibyte = 1n << 30n;
/** The sizes that the types have (EBS User Guide). */
const limitsGiB: Readonly<Record<string, readonly [minimum: bigint, maximum: bigint]>> = {
  gp3: [1n, 65_536n],
  gp2: [1n, 16_384n],
  io1: [4n, 16_384n],
  io2: [4n, 65_536n],
  st1: [125n, 16_384n],
  sc1: [125n, 16_384n],
  standard: [1n, 1024n],
};

/** @throws InvalidArgument that names the parameter, OutOfRange */
export function parseEbsParameters(parameters: Readonly<Record<string, string>>, sizeBytes: bigint): EbsParameters {
  const parsed = parseInput(schema, { ...parameters });
  if ('mistakes' in parsed) throw mistake(parsed.mistakes.join('; ').replace(/\.$/, ''));
  const { encrypted, iops, iopsPerGB, kmsKeyId, throughput, type } = parsed.data;
  if (iops !== undefined && iopsPerGB !== undefined) throw mistake('iops and iopsPerGB exclude each other');
  if ((iops ?? iopsPerGB) !== undefined && !['gp3', 'io1', 'io2'].includes(type)) throw mistake(`${type} has no iops`);
  if (throughput !== undefined && type !== 'gp3') throw mistake(`${type} has no throughput: only gp3 has`);
  if ((type === 'io1' || type === 'io2') && (iops ?? iopsPerGB) === undefined) throw mistake(`${type} needs iops`);
  if (kmsKeyId !== undefined && encrypted !== 'true') throw mistake('kmsKeyId needs encrypted: "true"');
  const sizeGiB = (sizeBytes + gibibyte - 1n) / gibibyte;
  const [minimumGiB = 1n, maximumGiB = 65_536n] = limitsGiB[type] ?? [];
  if (sizeGiB < minimumGiB || sizeGiB > maximumGiB) {
    throw new OutOfRange(`A volume of type ${type} has ${minimumGiB} to ${maximumGiB} GiB, not ${sizeGiB} GiB.`);
  }
  const chosenIops = iops ?? (iopsPerGB === undefined ? undefined : `${BigInt(iopsPerGB) * sizeGiB}`);
  return {
    VolumeType: type,
    ...(chosenIops === undefined ? {} : { Iops: chosenIops }),
    ...(throughput === undefined ? {} : { Throughput: throughput }),
    ...(encrypted === 'true' ? { Encrypted: 'true' } : {}),
    ...(kmsKeyId === undefined ? {} : { KmsKeyId: kmsKeyId }),
  };
}

function mistake(words: string): InvalidArgument {
  return new InvalidArgument(`Parameters of an aws-ebs volume: ${words}.`);
}
