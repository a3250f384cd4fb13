import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { InvalidArgument } from '../volume/errors.ts';
import { parseParameters, sortedParameters } from './parameters.ts';

describe('parameters', () => {
  test('what is not said is left to us', () => {
    assert.deepEqual(parseParameters({}), { poolName: undefined, provisioning: 'thin', mkfsOptions: '' });
  });

  test('all three are taken as they are', () => {
    assert.deepEqual(parseParameters({ pool: 'fast', provisioning: 'thick', mkfsOptions: '-m 1' }), {
      poolName: 'fast',
      provisioning: 'thick',
      mkfsOptions: '-m 1',
    });
  });

  test('CV10: the keys that Kubernetes injects are no parameters of ours', () => {
    assert.doesNotThrow(() => parseParameters({ 'csi.storage.k8s.io/pvc/name': 'claim', 'csi.storage.k8s.io/x': '' }));
  });

  for (const key of ['Pool', 'pool ', 'size', '', '__proto__', 'csi.storage.k8s.io', 'toString']) {
    test(`CV10: unknown parameter ${JSON.stringify(key)} is refused by name, with the known ones`, () => {
      const parameters: Record<string, string> = Object.fromEntries([[key, 'x']]);
      assert.throws(() => parseParameters(parameters), {
        name: InvalidArgument.name,
        message: `Unknown parameter ${JSON.stringify(key)}; known are mkfsOptions, pool, provisioning.`,
      });
    });
  }

  for (const value of ['', 'THIN', 'fat']) {
    test(`CV10: provisioning ${JSON.stringify(value)} is refused`, () => {
      assert.throws(() => parseParameters({ provisioning: value }), /it can be thin or thick/);
    });
  }

  test('the order on the wire does not matter', () => {
    assert.equal(
      JSON.stringify(sortedParameters({ b: '2', a: '1' })),
      JSON.stringify(sortedParameters({ a: '1', b: '2' })),
    );
  });
});
