import { FailedPrecondition, Unavailable } from '../../../volume/errors.ts';
import { CloudBackend } from '../../cloud-disk/backend.ts';
import { type CloudPace, usualPace } from '../../cloud-disk/cloud.ts';
import type { OpenContext, ReadyBackend } from '../../kind.ts';
import { GceClient } from './compute/client.ts';
import { TokenSource } from './compute/credentials.ts';
import { GceCloud } from './compute/gce-cloud.ts';
import { GceMetadata } from './compute/metadata.ts';
import type { GcePoolOptions } from './config.ts';
import { gceZoneKeys } from './instance.ts';
import { gceLabels } from './labels.ts';
import { gceParameters } from './parameters.ts';

export interface GceOpenOptions extends Pick<OpenContext, 'environment' | 'queue'>, GcePoolOptions {
  readonly name: string;
  readonly pace?: CloudPace;
  readonly timeoutMs?: number;
  readonly pausesMs?: readonly number[];
}

const usualPausesMs: readonly number[] = [250, 500, 1000, 2000, 4000, 8000];
const usualEndpoint = new URL('https://compute.googleapis.com');

export async function openGceBackend(options: GceOpenOptions): Promise<ReadyBackend> {
  const {
    diskLabels,
    endpoint = usualEndpoint,
    environment = {},
    name,
    pace = usualPace,
    poolId,
    queue,
    zone,
  } = options;
  const { pausesMs = usualPausesMs, timeoutMs = 20_000 } = options;
  const metadata = new GceMetadata(environment['GCE_METADATA_HOST']);
  const tokens = new TokenSource({ environment, queue, metadata });
  const project = options.project ?? (await projectOf(environment, tokens, metadata));
  const client = new GceClient({ endpoint, tokens, timeoutMs, pausesMs });
  const cloud = new GceCloud({ client, pace, project, extraLabels: diskLabels });
  const backend = new CloudBackend({
    ...{ kind: 'gce-pd', cloud, names: gceLabels, poolId, poolName: name, pace, queue },
    parameters: gceParameters,
    zoneKeys: gceZoneKeys,
    defaultZone: zone,
  });
  return { backend, facts: { project, pool_id: poolId } };
}

async function projectOf(
  environment: NonNullable<OpenContext['environment']>,
  tokens: TokenSource,
  metadata: GceMetadata,
): Promise<string> {
  const set = environment['GOOGLE_CLOUD_PROJECT'];
  if (set) return set;
  const ofCredentials = await tokens.project();
  const ofMachine = await metadata.require('project/project-id').catch(() => undefined);
  const project = ofCredentials ?? ofMachine;
  if (project === undefined) {
    throw new Unavailable('No project of Google is known: set project of the pool (docs/gce-pd.md).');
  }
  // With other credentials the pool would have none of its disks.
  if (ofMachine !== undefined && ofMachine !== project) {
    throw new FailedPrecondition(
      `The credentials are of project ${project}, and this machine is in ${ofMachine}: set project of the pool (docs/gce-pd.md).`,
    );
  }
  return project;
}
