import type { Catalog } from '../../src/pool/catalog/catalog.ts';
import type { CloudPace } from '../../src/pool/cloud-disk/cloud.ts';
import { openEbsBackend } from '../../src/pool/kinds/aws-ebs/open.ts';
import { openOver } from '../../src/pool/open.ts';
import { fakeKey } from '../cloud/ec2/fake-ec2.ts';
import type { Scratch } from './scratch.ts';
import { testSettings } from './test-pool.ts';

/** The times of a fake cloud, which is done at once. */
export const fastPace: CloudPace = { pollMs: 5, waitMs: 3_000, settleMs: 0, bornMs: 0, stuckMs: 60_000 };

export const fakeEnvironment = {
  AWS_ACCESS_KEY_ID: fakeKey.accessKeyId,
  AWS_SECRET_ACCESS_KEY: fakeKey.secretAccessKey,
} as const;

export interface EbsTestOptions {
  readonly pace?: Partial<CloudPace>;
  readonly poolId?: string;
  readonly region?: string;
  readonly zone?: string | undefined;
}

/** A pool on a fake of EC2. */
export function openEbsPool(
  scratch: Pick<Scratch, 'join'>,
  url: string,
  { pace, poolId = 'test', region = 'eu-test-1', zone = 'eu-test-1a' }: EbsTestOptions = {},
): Promise<Catalog> {
  const settings = testSettings(scratch);
  const chosen = {
    ...settings,
    ...{ path: '/', poolId, region, zone, tags: { team: 'storage' }, endpoint: new URL(url) },
    environment: fakeEnvironment,
    pace: { ...fastPace, ...pace },
    timeoutMs: 5_000,
    pausesMs: [1, 2, 4, 8, 16],
  };
  return openOver(() => openEbsBackend(chosen), chosen);
}
