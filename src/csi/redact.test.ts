import assert from 'node:assert/strict';
import { test } from 'node:test';
import protobuf from 'protobufjs/light.js';
import { contract, decode, encode } from './contract.ts';
import { descriptorJson } from './generated/descriptor.ts';
import { redact, redacted } from './redact.ts';

function loggable(typeName: string, message: object): Record<string, unknown> {
  const type = contract.lookupType(`csi.v1.${typeName}`);
  return redact(type, decode<object>(type, encode(type, message)));
}

const csi = protobuf.Root.fromJSON(JSON.parse(descriptorJson)).lookup('csi.v1');
assert.ok(csi instanceof protobuf.Namespace);
const withSecrets = csi.nestedArray.filter(
  (object) => object instanceof protobuf.Type && object.fieldsArray.some((field) => field.name === 'secrets'),
);

test('X01 there are 19 messages with secrets', () => {
  assert.equal(withSecrets.length, 19);
});

for (const { name } of withSecrets) {
  test(`X01 the secrets of ${name} never show`, () => {
    const copy = loggable(name, { secrets: { username: 'admin', password: 'hunter2' } });
    assert.deepEqual(copy, { secrets: redacted });
  });
}

test('X02 mount flags never show, however deep they lie', () => {
  const volume_capability = { mount: { fs_type: 'ext4', mount_flags: ['password=hunter2'] } };
  for (const message of [
    loggable('NodeStageVolumeRequest', { volume_capability }),
    loggable('CreateVolumeRequest', { volume_capabilities: [volume_capability] }),
  ]) {
    assert.ok(!JSON.stringify(message).includes('hunter2'));
    assert.ok(JSON.stringify(message).includes('ext4'));
  }
});

test('X01 credentials in attributes of a pod never show', () => {
  const volume_context = {
    'csi.storage.k8s.io/serviceAccount.tokens': '{"":{"token":"hunter2"}}',
    'csi.storage.k8s.io/pod.name': 'web-0',
    gitRepository: 'https://user:hunter2@git.example.com/a',
    gitRevision: 'main',
    size: '1Gi',
  };
  for (const gitRepository of [volume_context.gitRepository, 'https:user:hunter2@x', 'https://x/?token=hunter2']) {
    const copy = loggable('NodePublishVolumeRequest', { volume_context: { ...volume_context, gitRepository } });
    assert.deepEqual(copy, {
      volume_context: {
        'csi.storage.k8s.io/serviceAccount.tokens': redacted,
        'csi.storage.k8s.io/pod.name': 'web-0',
        gitRepository: redacted,
        gitRevision: 'main',
        size: '1Gi',
      },
    });
  }
  const plain = { volume_context: { gitRepository: 'https://git.example.com:8443/a.git' } };
  assert.deepEqual(loggable('NodePublishVolumeRequest', plain), plain);
});

test('what is not secret is shown, without defaults, and an int64 exactly', () => {
  const copy = loggable('CreateVolumeRequest', {
    name: 'pvc-1',
    capacity_range: { required_bytes: 2n ** 63n - 1n },
    volume_capabilities: [{ block: {}, access_mode: { mode: 'SINGLE_NODE_WRITER' } }],
    parameters: { pool: 'fast' },
  });
  assert.deepEqual(copy, {
    name: 'pvc-1',
    capacity_range: { required_bytes: '9223372036854775807' },
    volume_capabilities: [{ block: {}, access_mode: { mode: 'SINGLE_NODE_WRITER' } }],
    parameters: { pool: 'fast' },
  });
});

test('an empty map, an empty list and false are defaults', () => {
  assert.deepEqual(loggable('NodePublishVolumeRequest', { volume_context: {}, readonly: false, secrets: {} }), {});
});
