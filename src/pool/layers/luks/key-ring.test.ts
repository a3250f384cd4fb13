import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { FailedPrecondition, InvalidArgument } from '../../../volume/errors.ts';
import { parseVolumeId } from '../../../volume/id.ts';
import { Secrets } from '../../../volume/secrets.ts';
import { KeyRing } from './key-ring.ts';

const id = parseVolumeId(`vol-${'a'.repeat(26)}`) ?? assert.fail();
const record = { id, encryption: { type: 'luks2', headerBytes: 16 << 20, keyId: 'key-0123456789abcdef' } } as const;
const key = Buffer.alloc(32, 0xa5).toString('base64');

describe('the keys of a pool', () => {
  const directory = mkdtempSync(join(tmpdir(), 'key-ring-'));
  const keyFile = join(directory, 'key');
  writeFileSync(keyFile, `${key}\n`);
  after(() => rmSync(directory, { recursive: true }));

  const without = new KeyRing('default', undefined);
  const own = new KeyRing('default', keyFile);

  test('come from the secret, else from the key file', async () => {
    const [given, read] = await Promise.all([
      own.keysOf(record, { secrets: new Secrets({ passphrase: 'correct horse' }), use: 'create' }),
      own.keysOf(record, { secrets: new Secrets({}), use: 'create' }),
    ]);
    assert.equal(given.current.isRandom, false);
    assert.deepEqual(read.current, { bytes: Buffer.alloc(32, 0xa5), isRandom: true });
  });

  test('where there is no secret, the one is named that this call wants', async () => {
    for (const [use, words] of [
      ['create', /must be encrypted, and no secret came: .*\(csi\.storage\.k8s\.io\/provisioner-secret-name and/],
      [
        'stage',
        /needs key-0123456789abcdef, and no secret came: .*\(csi\.storage\.k8s\.io\/node-stage-secret-name and/,
      ],
    ] as const) {
      await assert.rejects(without.keysOf(record, { secrets: new Secrets({}), use }), (error) => {
        assert.ok(error instanceof InvalidArgument);
        assert.match(error.message, words);
        assert.ok(error.message.length <= 200, error.message);
        return true;
      });
    }
  });

  test('a secret with other fields is told by their names, and never by what is in them', async () => {
    const secrets = new Secrets({ username: 'admin', password: 'correct horse' });
    const words =
      'The secret has password, username, and neither key nor passphrase: name its field so (docs/encryption.md).';
    for (const use of ['create', 'stage'] as const) {
      await assert.rejects(without.keysOf(record, { secrets, use }), { message: words });
    }
    const many = new Secrets(
      Object.fromEntries(Array.from({ length: 1000 }, (_, index) => [`${index}`.repeat(90), ''])),
    );
    await assert.rejects(without.keysOf(record, { secrets: many, use: 'create' }), (error) => {
      assert.ok(error instanceof InvalidArgument && error.message.length <= 200, `${error}`);
      return true;
    });
  });

  test('a new volume does not get the key of the pool instead of that of such a secret; one that has it opens', async () => {
    const secrets = new Secrets({ password: 'correct horse' });
    await assert.rejects(own.keysOf(record, { secrets, use: 'create' }), /The secret has password, and neither/);
    assert.equal((await own.keysOf(record, { secrets, use: 'stage' })).current.isRandom, true);
  });

  test('a key file that cannot be read is named, with why', async () => {
    const directoryOfKeys = join(directory, 'directory');
    mkdirSync(directoryOfKeys);
    for (const [path, words] of [
      [
        join(directory, 'nowhere'),
        /nowhere cannot be read: the driver sees none there \(in a container: is it mounted\?\)/,
      ],
      [directoryOfKeys, /directory cannot be read \(EISDIR\): put a file there/],
    ] as const) {
      await assert.rejects(
        new KeyRing('default', path).keysOf(record, { secrets: undefined, use: 'stage' }),
        (error) => {
          assert.ok(error instanceof FailedPrecondition);
          assert.match(error.message, words);
          return true;
        },
      );
    }
  });
});
