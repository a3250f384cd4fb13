import { zoneKey } from '../../../volume/topology.ts';
import { CloudBackend } from '../../cloud-disk/backend.ts';
import { type CloudPace, usualPace } from '../../cloud-disk/cloud.ts';
import type { OpenContext, ReadyBackend } from '../../kind.ts';
import type { EbsPoolOptions } from './config.ts';
import { Ec2Client } from './ec2/client.ts';
import { CredentialSource, domainOf } from './ec2/credentials.ts';
import { Ec2Cloud } from './ec2/ec2-cloud.ts';
import { InstanceMetadata } from './ec2/metadata.ts';
import { ebsParameters } from './parameters.ts';

export interface EbsOpenOptions extends Pick<OpenContext, 'environment' | 'queue'>, EbsPoolOptions {
  readonly name: string;
  readonly pace?: CloudPace;
  readonly timeoutMs?: number;
  readonly pausesMs?: readonly number[];
}

const names = {
  pool: 'holdfast.dev/pool',
  volume: 'holdfast.dev/volume',
  snapshot: 'holdfast.dev/snapshot',
  created: 'holdfast.dev/created',
  fresh: 'holdfast.dev/first-node',
  record: { prefix: 'holdfast.dev/record.', longestValue: 256, encoding: 'base64url' },
} as const;

/** Some of EC2's limits last seconds. */
const usualPausesMs: readonly number[] = [250, 500, 1000, 2000, 4000, 8000];

export async function openEbsBackend(options: EbsOpenOptions): Promise<ReadyBackend> {
  const { endpoint, environment = {}, name, pace = usualPace, poolId, queue, tags, zone } = options;
  const { pausesMs = usualPausesMs, timeoutMs = 20_000 } = options;
  const metadata = new InstanceMetadata(environment['AWS_EC2_METADATA_SERVICE_ENDPOINT']);
  const region = options.region ?? (await regionOf(environment, metadata));
  const given = endpoint ?? urlIn(environment['AWS_ENDPOINT_URL_EC2'] ?? environment['AWS_ENDPOINT_URL']);
  const url = given ?? new URL(`https://ec2.${region}.${domainOf(region)}/`);
  const credentials = new CredentialSource({ environment, region, queue, metadata });
  const client = new Ec2Client({ endpoint: url, region, credentials, timeoutMs, pausesMs });
  const cloud = new Ec2Cloud({ client, pace, extraTags: tags });
  const backend = new CloudBackend({
    ...{ kind: 'aws-ebs', cloud, names, poolId, poolName: name, pace, queue },
    parameters: ebsParameters,
    zoneKeys: [zoneKey],
    defaultZone: zone,
  });
  return { backend, facts: { region, pool_id: poolId } };
}

async function regionOf(environment: OpenContext['environment'], metadata: InstanceMetadata): Promise<string> {
  const given = environment?.['AWS_REGION'] || environment?.['AWS_DEFAULT_REGION'];
  return given || (await metadata.require('meta-data/placement/region'));
}

function urlIn(text: string | undefined): URL | undefined {
  return text === undefined || text === '' ? undefined : new URL(text);
}
