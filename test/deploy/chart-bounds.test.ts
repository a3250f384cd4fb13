import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { before, describe, test } from 'node:test';
import { stringify } from 'yaml';
import { boundsFile, chartBounds } from '../../scripts/chart-bounds.ts';
import { type ConfigFile, parseConfigFile } from '../../src/config/file.ts';
import { CommandError } from '../cluster/harness/command.ts';
import { Helm } from './helm.ts';

const places = { dataDirectory: '/var/lib/holdfast', kubeletDirectory: '/var/lib/kubelet' };

/** Where the pools of these tests lie. */
const seen = { poolDirectories: ['/srv'], keyDirectories: ['/run/keys'] };

type Section = Readonly<Record<string, unknown>>;

/** Values at the bounds of each key, and just beyond them, in the units that they are written in. */
const valuesOf: Readonly<Record<string, readonly unknown[]>> = {
  size: [
    ...['300Mi', '299Mi', '314572800', '314572799', '307200Ki', '307199Ki', '315M', '314M', '1Gi', '0Gi', '1G', '0'],
    ...['1024Pi', '1025Pi', '1152P', '1153P', '1152921504606846976', '1152921504606846977', '9999999999999999999'],
    ...[
      '1048576Ti',
      '1048577Ti',
      '-1Gi',
      '1.5Gi',
      '0.29Gi',
      '0.3Gi',
      '1e9',
      '1e8',
      1e9,
      '1Ei',
      '1.01Ei',
      '9E',
      '10GB',
      '300000000001m',
    ],
    ...['1gi', '10 Gi', '10', 314572800, 314572799, 0, 'large', true],
  ],
  reserve: [
    '1Mi',
    '1048576',
    '1048575',
    '1024Ki',
    '1023Ki',
    '2M',
    '1M',
    '1049k',
    '1048k',
    '1024Pi',
    '1025Pi',
    1048576,
    1,
  ],
  sickAfter: ['1s', '0s', '0', 0, '3600s', '3601s', '60m', '61m', '1h', '2h', '1d', '20', 20, '1.5s'],
  undelete: [
    '0',
    0,
    '0s',
    '1s',
    '315360000s',
    '315360001s',
    '5256000m',
    '5256001m',
    '87600h',
    '87601h',
    '3650d',
    '3651d',
    5,
  ],
  overcommit: [1, 0.99, 1.5, 1000, 1000.1, 1001, '2', 0, -1],
};

/** Rules of several keys. */
const sections: readonly Section[] = [
  { directory: '/srv/a', device: '/dev/sdb' },
  { directory: '/srv/a', file: '/srv/b' },
  { device: '/dev/sdb', file: '/srv/b' },
  { directory: '/srv/c', size: '1Gi' },
  { device: '/dev/sdc', size: '1Gi' },
  { systemDisk: 'refuse' },
  { device: '/dev/sdd', systemDisk: 'refuse' },
  { directory: '/srv/e', systemDisk: 'refuse' },
  { file: '/srv/f', size: '1Gi', systemDisk: 'allow' },
  { kind: 'directory', path: '/srv/g', systemDisk: 'refuse' },
  { kind: 'directory', path: '/srv/h', systemDisk: 'never' },
  { labels: { media: 'nvme', 'a.b': 'c_d' } },
  { labels: {} },
  { labels: { media: true } },
  { labels: { media: '' } },
  { labels: { 'a b': 'c' } },
  { labels: ['nvme'] },
  { kind: 'lvm' },
  ...['vg0', 'a.b+c_d-e', 'v'.repeat(40), 'v'.repeat(41), '-vg', '.', '..', '...', 'a/b', '', 5].map((volumeGroup) => ({
    kind: 'lvm',
    volumeGroup,
  })),
  { kind: 'lvm', volumeGroup: 'vg1', wipe: 'zero', reserve: '1Gi', undelete: '1d', defaultFilesystem: 'xfs' },
  { kind: 'lvm', volumeGroup: 'vg2', wipe: 'shred' },
  { kind: 'lvm', volumeGroup: 'vg3', overcommit: 2 },
  { kind: 'lvm', volumeGroup: 'vg4', trim: 'daily', thinPool: { size: '500Gi', metadata: '1Gi', overcommit: 4 } },
  { kind: 'lvm', volumeGroup: 'vg5', thinPool: { size: '299Mi' } },
  { kind: 'lvm', volumeGroup: 'vg6', thinPool: { metadata: '1Gi' } },
  { kind: 'lvm', volumeGroup: 'vg7', thinPool: { size: '1Gi', chunk: '64Ki' } },
  ...['15Gi', '16192Mi', '16193Mi', '16Gi', '1Ti', '1Mi', '1023Ki', '17G', 16978542592, 16978542593].map(
    (metadata, index) => ({ kind: 'lvm', volumeGroup: `vg-metadata-${index}`, thinPool: { size: '1Ti', metadata } }),
  ),
  { kind: 'lvm', volumeGroup: 'vg8', thinPool: { size: '1Gi' }, wipe: 'zero' },
  { kind: 'lvm', volumeGroup: 'vg9', trim: 'daily' },
  { kind: 'lvm', devices: ['/dev/sdg', '/dev/sdh'] },
  { kind: 'lvm', volumeGroup: 'vg10', devices: ['/dev/sdi'], thinPool: { size: '1Gi' } },
  ...[[], '/dev/sdj', ['sdj'], ['/dev/sdj', '/dev/sdj'], [5]].map((devices) => ({ kind: 'lvm', devices })),
  { kind: 'disk' },
  { kind: 'disk', device: '/dev/sdb', wipe: 'zero', undelete: '1d', defaultFilesystem: 'xfs' },
  { kind: 'disk', device: 'sdc' },
  { kind: 'disk', device: '/dev/sdd', wipe: 'shred' },
  { kind: 'disk', device: '/dev/sde', reserve: '1Gi' },
  { kind: 'disk', device: '/dev/sdf', match: { bus: 'scsi' } },
  ...[
    { id: 'scsi-*', model: '*', size: { minimum: '3Ti', maximum: '5Ti' }, rotational: true, bus: 'scsi' },
    ...[{}, [], 'scsi-*', { id: '' }, { id: 5 }, { bus: 'sata' }, { rotational: 'yes' }, { serial: 'x' }],
    ...[{}, '4Ti', { minimum: 5 }, { maximum: '1Mi' }, { least: '1Gi' }].map((size) => ({ size })),
  ].map((match) => ({ kind: 'disk', match })),
  { kind: 'image', volumeGroup: 'vg4' },
];

describe('The chart takes a configuration if, and only if, the driver does', () => {
  const cases: Section[] = [
    ...Object.entries(valuesOf).flatMap(([key, values]) => values.map((value) => ({ [key]: value }))),
    ...sections,
  ];
  const pools = cases.map((section, index) => [`pool-${String(index).padStart(3, '0')}x`, section] as const);
  // The chart installs drivers for the disks of their nodes, and only a home may have no pools.
  const hasPools = ({ common, sections: some }: ConfigFile) =>
    [common, ...some.values()].every((settings) => settings.pools?.length !== 0);
  const isTaken = (config: unknown) => {
    const parsed = parseConfigFile(stringify(config), places);
    return 'file' in parsed && hasPools(parsed.file);
  };
  const taken = pools.filter(([name, section]) => isTaken({ pools: { [name]: section } }));
  const refused = pools.filter((entry) => !taken.includes(entry));
  let helm: Helm;

  before(async () => {
    helm = await Helm.build();
  });

  test('of pools: all that the driver takes, at once', async () => {
    assert.ok(taken.length > 30);
    await helm.template({ ...seen, config: { pools: { ...Object.fromEntries(taken), default: null } } });
  });

  test('of pools: nothing that it refuses, and none in a regular expression of a hundred characters', async () => {
    assert.ok(refused.length > 30);
    // The schema speaks first; the templates, which know bounds and pairs of keys, of what it lets pass.
    const bySchema = await toldOf(refused);
    const byTemplates = await toldOf(refused.filter(([name]) => !bySchema.includes(name)));
    for (const [name, section] of refused) {
      const line = `${bySchema}\n${byTemplates}`.split('\n').find((each) => each.includes(name));
      assert.ok(line !== undefined, JSON.stringify(section));
      assert.ok(line.length < 300, line);
    }
  });

  async function toldOf(pools: typeof refused): Promise<string> {
    const [first] = pools;
    const config = { pools: Object.fromEntries(pools), defaultPool: first?.[0] };
    return helm.template({ ...seen, config }).then(
      () => assert.fail('the chart takes it'),
      (error: unknown) => (error instanceof CommandError ? error.stderr : assert.fail(String(error))),
    );
  }

  for (const config of [
    ...['1Mi', '1023Ki', '1024Pi', '1025Pi', '10'].map((maxInlineSize) => ({ maxInlineSize })),
    ...[0, 100_000, 100_001, -1, 0.5].map((maxVolumesPerNode) => ({ maxVolumesPerNode })),
    ...[0, 0.5, 86_400, 86_401, -1].map((lockTimeoutSeconds) => ({ lockTimeoutSeconds })),
    { defaultPool: 'default' },
    { defaultPool: 'fast' },
    { pools: { fast: {}, slow: {} } },
    { pools: { fast: {}, slow: {} }, defaultPool: 'fast' },
    { pools: { fast: {}, default: {} } },
    { pools: {} },
    ...[
      ['1Gi', '1023Mi'],
      ['1Gi', '1Gi'],
      ['1G', '1Gi'],
      ['2Ti', '1999Gi'],
      ['1Ti', '1100G'],
    ].map(([size, reserve]) => ({ pools: { default: { size, reserve } } })),
    { nodes: { a: { pools: { fast: { file: '/srv/x', size: '1Gi', reserve: '2Gi' } } } } },
    ...['db-1', 'db-*', '*-db', '*.*', 'a', '1*', '*', '**', '*-', '', 'a b', '-a'].map((names) => ({
      nodes: { [names]: null },
    })),
    ...[
      { pools: { fast: {} } },
      { pools: { fast: {}, slow: {} } },
      { pools: { fast: {}, slow: {} }, defaultPool: 'fast' },
      { pools: { fast: { size: 1 } } },
      { pools: {} },
      { defaultPool: 'default' },
      { defaultPool: 'fast' },
      { maxVolumesPerNode: 0 },
      { maxVolumesPerNode: -1 },
      { expansion: 'node' },
    ].map((section) => ({ nodes: { a: section } })),
  ]) {
    const expected = isTaken(config);
    test(`${JSON.stringify(config)}: ${expected ? 'taken' : 'refused'}`, async () => {
      const made = helm.template({ ...seen, config });
      if (expected) await made;
      else await assert.rejects(made, /config/);
    });
  }

  test('its bounds are those of the driver (node scripts/chart-bounds.ts writes them)', () => {
    assert.equal(readFileSync(boundsFile, 'utf8'), chartBounds());
  });
});
