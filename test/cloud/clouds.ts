import { existsSync, writeFileSync } from 'node:fs';
import type { Catalog } from '../../src/pool/catalog/catalog.ts';
import type { DiskFinder } from '../../src/pool/cloud-disk/attached/finder.ts';
import type { CloudPace } from '../../src/pool/cloud-disk/cloud.ts';
import type { CloudName } from '../../src/pool/cloud-disk/instance.ts';
import type { ReadyBackend } from '../../src/pool/kind.ts';
import { ebsNodeKind } from '../../src/pool/kinds/aws-ebs/node.ts';
import { openEbsBackend } from '../../src/pool/kinds/aws-ebs/open.ts';
import { gceNodeKind } from '../../src/pool/kinds/gce-pd/node.ts';
import { openGceBackend } from '../../src/pool/kinds/gce-pd/open.ts';
import type { NodeKind } from '../../src/pool/node-side.ts';
import { openOver } from '../../src/pool/open.ts';
import type { Scratch } from '../support/scratch.ts';
import { testSettings } from '../support/test-pool.ts';
import { FakeEc2, fakeKey } from './ec2/fake-ec2.ts';
import type { FakeCloud } from './fake-cloud.ts';
import { FakeGce, fakeKeyFile, fakeProject } from './gce/fake-gce.ts';

/* The clouds that the tests of all clouds run with: a fake, and how a pool is opened on it. */

/** The times of a fake cloud, which is done at once. */
export const fastPace: CloudPace = { pollMs: 5, waitMs: 3_000, settleMs: 0, bornMs: 0, stuckMs: 60_000 };

export interface PoolOptions {
  readonly pace?: Partial<CloudPace>;
  readonly poolId?: string;
}

export interface TestCloud<Fake extends FakeCloud = FakeCloud> {
  readonly kind: 'aws-ebs' | 'gce-pd';
  /** The value of HOLDFAST_CLOUD. */
  readonly name: CloudName;
  readonly labels: {
    readonly pool: string;
    readonly volume: string;
    readonly created: string;
    readonly record0: string;
  };
  /** Two machines in the zone of the pool, and one that is not there. */
  readonly machines: readonly [string, string];
  readonly missingMachine: string;
  /** Its name in other zones has them in it. */
  machineIn(zone: string): string;
  start(random?: () => number): Promise<Fake>;
  nodeKind(finder?: DiskFinder): NodeKind;
  openBackend(options: BackendOptions): Promise<ReadyBackend>;
  /** The environment of a driver, and the keys of its pool. */
  environment(scratch: Pick<Scratch, 'join'>, url: string): Record<string, string>;
  /** A class with a key that may be forbidden. */
  readonly keyParameters: Readonly<Record<string, string>>;
  readonly forbiddenKey: string;
  /** Classes that the cloud does not have. */
  readonly wrongParameters: readonly Readonly<Record<string, string>>[];
  /** A class, and what the fake has of it. */
  readonly fastClass: { readonly parameters: Readonly<Record<string, string>>; readonly made: object };
  /** The requests by which it labels and takes snapshots, and the refusal for a disk that is not there. */
  readonly actions: { readonly label: string; readonly snapshot: string; readonly notFound: string };
}

type BackendOptions = Parameters<TestCloudOpener>[0];
type TestCloudOpener = (options: {
  readonly settings: ReturnType<typeof testSettings>;
  readonly url: string;
  readonly poolId: string;
  readonly pace: CloudPace;
  readonly environment: Readonly<Record<string, string>>;
}) => Promise<ReadyBackend>;

const quick = { timeoutMs: 5_000, pausesMs: [1, 2, 4, 8, 16] };
const zone = 'eu-test-1a';

export const ebs: TestCloud<FakeEc2> = {
  kind: 'aws-ebs',
  name: 'aws',
  labels: {
    pool: 'holdfast.dev/pool',
    volume: 'holdfast.dev/volume',
    created: 'holdfast.dev/created',
    record0: 'holdfast.dev/record.0',
  },
  machines: ['i-00000001', 'i-00000002'],
  missingMachine: 'i-00000009',
  machineIn: () => 'i-00000003',
  start: FakeEc2.start,
  nodeKind: ebsNodeKind,
  openBackend: ({ settings, url, ...rest }) =>
    openEbsBackend({
      ...{ ...settings, ...quick, ...rest, region: 'eu-test-1', zone, tags: { team: 'storage' } },
      endpoint: new URL(url),
    }),
  environment: (_scratch, url) => ({
    AWS_ACCESS_KEY_ID: fakeKey.accessKeyId,
    AWS_SECRET_ACCESS_KEY: fakeKey.secretAccessKey,
    AWS_EC2_METADATA_SERVICE_ENDPOINT: url,
    AWS_REGION: 'eu-test-1',
  }),
  keyParameters: { encrypted: 'true', kmsKeyId: 'alias/secret' },
  forbiddenKey: 'alias/secret',
  wrongParameters: [{ type: 'gp9' }, { type: 'io1' }, { iops: '3000', type: 'st1' }, { kmsKeyId: 'alias/a' }],
  fastClass: { parameters: { type: 'io2', iops: '4000' }, made: { type: 'io2', iops: '4000', key: '' } },
  actions: { label: 'CreateTags', snapshot: 'CreateSnapshot', notFound: 'InvalidVolume.NotFound' },
};

const key = 'projects/test-project/locations/eu/keyRings/ring/cryptoKeys/secret';
const machine = (name: string, where = zone) => `projects/${fakeProject}/zones/${where}/instances/${name}`;

export const gce: TestCloud<FakeGce> = {
  kind: 'gce-pd',
  name: 'gce',
  labels: {
    pool: 'holdfast-pool',
    volume: 'holdfast-volume',
    created: 'holdfast-created',
    record0: 'holdfast-record-0',
  },
  machines: [machine('node-1'), machine('node-2')],
  missingMachine: machine('node-9'),
  machineIn: (where) => machine('node-3', where),
  start: FakeGce.start,
  nodeKind: gceNodeKind,
  openBackend: ({ settings, url, ...rest }) =>
    openGceBackend({
      ...{ ...settings, ...quick, ...rest, project: undefined, zone, diskLabels: { team: 'storage' } },
      endpoint: new URL(url),
    }),
  environment(scratch, url) {
    const path = scratch.join('key.json');
    // The key is of the process that has the fake; others use its file.
    if (!existsSync(path)) writeFileSync(path, JSON.stringify(fakeKeyFile(url)));
    return { GOOGLE_APPLICATION_CREDENTIALS: path, GCE_METADATA_HOST: new URL(url).host };
  },
  keyParameters: { 'disk-encryption-kms-key': key },
  forbiddenKey: key,
  wrongParameters: [
    { type: 'pd-9' },
    { 'replication-type': 'regional-pd' },
    { type: 'pd-ssd', 'provisioned-iops-on-create': '3000' },
    { 'disk-encryption-kms-key': 'secret' },
    { labels: 'Team=a' },
  ],
  fastClass: {
    parameters: { type: 'hyperdisk-balanced', 'provisioned-iops-on-create': '4000' },
    made: { type: 'hyperdisk-balanced', iops: '4000', key: '' },
  },
  actions: { label: 'setLabels', snapshot: 'createSnapshot', notFound: 'notFound' },
};

export function cloudNamed(kind: string): TestCloud {
  const found = [ebs, gce].find((each) => each.kind === kind);
  if (found === undefined) throw new Error(`no cloud ${kind}`);
  return found;
}

/** A pool on a fake of a cloud. */
export function openCloudPool(
  cloud: TestCloud,
  scratch: Pick<Scratch, 'join'>,
  url: string,
  { pace, poolId = 'test' }: PoolOptions = {},
): Promise<Catalog> {
  const settings = { ...testSettings(scratch), path: '/' };
  const environment = cloud.environment(scratch, url);
  const options = { settings, url, poolId, pace: { ...fastPace, ...pace }, environment };
  return openOver(() => cloud.openBackend(options), settings);
}
