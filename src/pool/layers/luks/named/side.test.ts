import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DiskQueue } from '../../../../kernel/call/disk-queue.ts';
import { singleNodeModes } from '../../../../volume/capability.ts';
import { parseHandle } from '../../../../volume/handle.ts';
import { Secrets } from '../../../../volume/secrets.ts';
import type { NodeSide, VolumeOnNode } from '../../../node-side.ts';
import type { AttachOptions } from '../../../pool.ts';
import { encryptableSide } from './side.ts';

const log = { info: () => undefined, warn: () => undefined, error: () => undefined };
const volume: VolumeOnNode = {
  handle: parseHandle('database') ?? assert.fail(),
  content: { type: 'mount', fsType: 'ext4' },
  accessModes: singleNodeModes,
  provisioning: 'thin',
  context: { program: 'san', encryption: 'luks2' },
};

test('the keys of an encrypted disk stay in the driver: what is below gets the other fields of the Secret', async () => {
  const given: AttachOptions[] = [];
  const inner: NodeSide = {
    name: 'program san',
    async attach(_volume, options) {
      given.push(options);
      throw new Error('as far as that');
    },
    attached: async () => [],
  };
  const side = encryptableSide(inner, { server: 'san', dataDirectory: '/', queue: new DiskQueue('side', 2), log });
  const keys = { key: 'a', passphrase: 'b', previousKey: 'c', previousPassphrase: 'd' };
  const options = { persistent: false, secrets: new Secrets({ ...keys, user: 'admin' }) };
  const attach = (of: VolumeOnNode) => assert.rejects(side.attach(of, options), /as far as that/);
  await attach(volume);
  assert.deepEqual(
    given.map(({ secrets }) => secrets?.names()),
    [['user']],
  );
  assert.equal(given[0]?.secrets?.get('user'), 'admin');
  // They are the program's own, where nothing is encrypted.
  await attach({ ...volume, context: { program: 'san' } });
  assert.equal(given[1]?.secrets?.get('key'), 'a');
});
