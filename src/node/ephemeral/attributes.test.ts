import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { InvalidArgument } from '../../volume/errors.ts';
import { isEphemeral, keptParameters, parseEphemeralAttributes, sameAttributes } from './attributes.ts';

const fromKubelet = {
  'csi.storage.k8s.io/ephemeral': 'true',
  'csi.storage.k8s.io/pod.name': 'web-0',
  'csi.storage.k8s.io/serviceAccount.tokens': '{"audience":{"token":"hunter2"}}',
};

describe('attributes of ephemeral volumes', () => {
  test('the kubelet says which volumes are ephemeral', () => {
    assert.ok(isEphemeral(fromKubelet));
    assert.ok(!isEphemeral({ 'csi.storage.k8s.io/ephemeral': 'false' }));
    assert.ok(!isEphemeral({ ephemeral: 'true' }));
  });

  test('without any: its size, and the rest is as the pool has it', () => {
    const attributes = {
      sizeBytes: undefined,
      fsType: undefined,
      poolName: undefined,
      encryption: undefined,
      source: undefined,
    };
    assert.deepEqual(parseEphemeralAttributes(fromKubelet), attributes);
  });

  test('all of them', () => {
    const context = { ...fromKubelet, size: '10Mi', fsType: 'xfs', pool: 'fast', gitRepository: '/srv/x' };
    assert.deepEqual(parseEphemeralAttributes({ ...context, gitRevision: 'v1', gitDirectory: 'src' }), {
      sizeBytes: 10n << 20n,
      fsType: 'xfs',
      poolName: 'fast',
      encryption: undefined,
      source: { repository: '/srv/x', revision: 'v1', directory: 'src' },
    });
  });

  for (const context of [
    { sizes: '1Gi' },
    { size: '0' },
    { size: '1.5GB' },
    { size: '-1' },
    { size: '' },
    { fsType: 'ntfs' },
    { fsType: '' },
    { gitRevision: 'v1' },
    { provisioning: 'thick' },
    { toString: 'x' },
  ]) {
    test(`${JSON.stringify(context)} is refused by name`, () => {
      const [key = ''] = Object.keys(context);
      assert.throws(
        () => parseEphemeralAttributes({ ...fromKubelet, ...context }),
        (error) => error instanceof InvalidArgument && error.message.includes(key),
      );
    });
  }

  test('X01: the record keeps what the kubelet says, and no tokens', () => {
    assert.deepEqual(keptParameters({ size: '1Gi', ...fromKubelet }), {
      'csi.storage.k8s.io/pod.name': 'web-0',
      size: '1Gi',
    });
  });

  test('PB07: the same attributes, whatever the kubelet says besides', () => {
    assert.ok(sameAttributes({ size: '1Gi' }, { ...fromKubelet, size: '1Gi' }));
    assert.ok(!sameAttributes({ size: '1Gi' }, { size: '1Gi', fsType: 'ext4' }));
    assert.ok(!sameAttributes({ size: '1Gi' }, { size: '2Gi' }));
  });
});
