import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { InvalidArgument } from '../../volume/errors.ts';
import { checkSnapshotParameters, parseMutableParameters, parseParameters, sortedParameters } from './parameters.ts';

describe('parameters', () => {
  test('what is not said is left to us', () => {
    assert.deepEqual(parseParameters({}), {
      poolName: undefined,
      poolSelector: undefined,
      forgetNodeSeconds: undefined,
      provisioning: undefined,
      mkfsOptions: '',
      encryption: undefined,
      layout: undefined,
      wipe: undefined,
      undeleteSeconds: undefined,
    });
  });

  test('all of them are taken as they are', () => {
    const parameters = {
      encryption: 'luks2',
      layout: 'raid1',
      wipe: 'zero',
      pool: 'fast',
      provisioning: 'thick',
      mkfsOptions: '-m 1',
      undelete: '24h',
    };
    assert.deepEqual(parseParameters(parameters), {
      poolName: 'fast',
      poolSelector: undefined,
      forgetNodeSeconds: undefined,
      provisioning: 'thick',
      mkfsOptions: '-m 1',
      encryption: 'luks2',
      layout: 'raid1',
      wipe: 'zero',
      undeleteSeconds: 86_400,
    });
  });

  test('CV10: the keys that Kubernetes injects are no parameters of ours', () => {
    assert.doesNotThrow(() => parseParameters({ 'csi.storage.k8s.io/pvc/name': 'claim', 'csi.storage.k8s.io/x': '' }));
  });

  const pool = " (did you mean 'pool'?)";
  for (const [key, hint] of [
    ['Pool', pool],
    ['pool ', pool],
    ...['fsType', 'fstype', 'filesystem'].map(
      (word) => [word, " (did you mean 'csi.storage.k8s.io/fstype'?)"] as const,
    ),
    ...['size', '', '__proto__', 'csi.storage.k8s.io', 'toString'].map((far) => [far, ''] as const),
  ] as const) {
    test(`CV10: unknown parameter ${JSON.stringify(key)} is refused by name, with the known ones`, () => {
      const parameters: Record<string, string> = Object.fromEntries([[key, 'x']]);
      assert.throws(() => parseParameters(parameters), {
        name: InvalidArgument.name,
        message: `Unknown parameter ${JSON.stringify(key)}; known are encryption, forgetNodeAfter, layout, mkfsOptions, pool, poolSelector, wipe, provisioning, undelete${hint}.`,
      });
    });
  }

  test('CV10: a layout and a wipe are ones that there are', () => {
    const message = /^Parameter layout is "raid"; it can be linear, striped, raid1 \(did you mean 'raid1'\?\)\.$/;
    assert.throws(() => parseParameters({ layout: 'raid' }), { name: InvalidArgument.name, message });
    assert.throws(
      () => parseParameters({ wipe: 'shred' }),
      /^InvalidArgument: Parameter wipe is "shred"; it can be discard, zero, none\.$/,
    );
  });

  test('CV10: a pool is named, or chosen by its labels, not both', () => {
    const { poolName, poolSelector } = parseParameters({ poolSelector: 'media=nvme' });
    assert.deepEqual([poolName, poolSelector], [undefined, { text: 'media=nvme', labels: { media: 'nvme' } }]);
    assert.throws(() => parseParameters({ pool: 'fast', poolSelector: 'media=nvme' }), /exclude each other/);
    assert.throws(() => parseParameters({ poolSelector: 'media' }), /Parameter poolSelector: "media"/);
  });

  for (const value of ['', 'THIN', 'fat']) {
    test(`CV10: provisioning ${JSON.stringify(value)} is refused`, () => {
      assert.throws(() => parseParameters({ provisioning: value }), /it can be thin or thick/);
    });
  }

  for (const value of ['', '24', '1.5h', '-1h', '1w', '9999999d']) {
    test(`CV10: undelete ${JSON.stringify(value)} is refused, and the parameter named`, () => {
      assert.throws(() => parseParameters({ undelete: value }), {
        name: InvalidArgument.name,
        message: /^Parameter undelete: /,
      });
    });
  }

  test('MV07: mutable parameters that are not named change nothing', () => {
    assert.deepEqual(parseMutableParameters({}), { provisioning: undefined, undeleteSeconds: undefined });
    assert.deepEqual(parseMutableParameters({ undelete: '0', 'csi.storage.k8s.io/pvc/name': 'claim' }), {
      provisioning: undefined,
      undeleteSeconds: 0,
    });
  });

  for (const [key, hint] of [
    ['pool', ''],
    ['mkfsOptions', ''],
    ['iops', ''],
    ['Undelete', " (did you mean 'undelete'?)"],
  ] as const) {
    test(`MV03: ${key} is no mutable parameter`, () => {
      assert.throws(() => parseMutableParameters({ undelete: '1h', [key]: 'x' }), {
        name: InvalidArgument.name,
        message: `Unknown mutable parameter "${key}"; known are provisioning, undelete${hint}.`,
      });
    });
  }

  test('CS12 GR04: snapshots have no parameters but those that Kubernetes adds', () => {
    checkSnapshotParameters({ 'csi.storage.k8s.io/volumesnapshot/name': 'nightly' });
    assert.throws(() => checkSnapshotParameters({ pool: 'fast' }), {
      name: InvalidArgument.name,
      message: 'Unknown parameter "pool"; there are none.',
    });
  });

  test("CS12 GR04: a class's deletionPolicy may stand among its parameters, too", () => {
    for (const deletionPolicy of ['Delete', 'Retain']) checkSnapshotParameters({ deletionPolicy });
    assert.throws(() => checkSnapshotParameters({ deletionPolicy: 'Keep' }), {
      name: InvalidArgument.name,
      message: /deletionPolicy is "Keep"; it can be Delete or Retain/,
    });
  });

  test('the order on the wire does not matter', () => {
    assert.equal(
      JSON.stringify(sortedParameters({ b: '2', a: '1' })),
      JSON.stringify(sortedParameters({ a: '1', b: '2' })),
    );
  });
});
