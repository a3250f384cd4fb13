import assert from 'node:assert/strict';
import { test } from 'node:test';
import { InvalidArgument } from '../../../volume/errors.ts';
import { contextKeys, isOwn, readNfsContext, sourceOf, writeNfsContext } from './context.ts';

const base = { server: 'nas', share: '/export' };

test('a context is read as a driver writes it, and as users of csi-driver-nfs do', () => {
  const none = { parameters: [], version: undefined, port: undefined };
  const whole = { exported: { host: 'nas', share: '/export' }, directory: '', mode: undefined, options: none };
  assert.deepEqual(readNfsContext(base), whole);
  assert.deepEqual(readNfsContext({ ...base, subDir: '', mountPermissions: '0' }), whole);
  const written = writeNfsContext(
    { exported: whole.exported, directory: 'holdfast/volumes/v/data' },
    {
      ...{ mountOptions: 'vers=4.1,hard', mountPermissions: '0750' },
    },
  );
  assert.deepEqual(readNfsContext(written), {
    exported: whole.exported,
    directory: 'holdfast/volumes/v/data',
    mode: 0o750,
    options: { parameters: [['hard']], version: '4.1', port: undefined },
  });
  const theirs = readNfsContext({ ...base, subdir: '/pvc-1/', mountpermissions: '0755' });
  assert.equal(theirs.directory, 'pvc-1');
  assert.equal(theirs.mode, 0o755);
  for (const key of ['server', 'share', 'subDir', 'subdir', 'mountPermissions', 'mountpermissions', 'mountOptions']) {
    assert.ok(contextKeys.includes(key), key);
  }
});

test('a volume is mounted from the path that its source has', () => {
  const sourceIn = (context: Record<string, string>) => sourceOf(readNfsContext(context));
  assert.equal(sourceIn(base), 'nas:/export');
  assert.equal(sourceIn({ ...base, subDir: 'a/b' }), 'nas:/export/a/b');
  assert.equal(sourceIn({ server: 'fd00::1', share: '/', subDir: 'a' }), '[fd00::1]:/a');
});

test('what leads out of the share is refused, and the key is named', () => {
  const wrong: readonly (readonly [Record<string, string>, RegExp])[] = [
    [{ server: 'nas' }, /needs server and share/],
    [{ ...base, subDir: '../other' }, /subDir must be a path in the share without '\.\.'/],
    [{ ...base, subDir: 'a//b' }, /subDir must be a path in the share/],
    [{ ...base, subdir: 'a/./b' }, /subDir must be a path in the share/],
    [{ ...base, share: 'export' }, /share must be an absolute path/],
    [{ ...base, server: 'a b' }, /server must be the name or the address/],
    [{ ...base, mountPermissions: '0999' }, /mountPermissions must be a mode in octal/],
    [{ ...base, mountPermissions: 'rwx' }, /mountPermissions must be a mode in octal/],
    [{ ...base, mountOptions: 'hard,addr=6.6.6.6' }, /mountOptions has a mistake: option 2 of 2/],
  ];
  for (const [context, words] of wrong) {
    assert.throws(
      () => readNfsContext(context),
      (error: Error) => {
        assert.ok(error instanceof InvalidArgument);
        assert.match(error.message, words);
        return true;
      },
    );
  }
});

test('no share leads above its server’s root', () => {
  assert.equal(readNfsContext({ server: 'nas', share: '/export/../../etc' }).exported.share, '/etc');
});

test('only the directory of a volume of a pool is mounted by its path, as nobody else can put links there', () => {
  const id = `vol-${'a'.repeat(26)}`;
  assert.ok(isOwn(`holdfast/volumes/${id}/data`));
  for (const other of ['', 'data', `${id}/data`, 'volumes/x/data', `volumes/${id}/data/sub`, `snapshots/${id}/data`]) {
    assert.ok(!isOwn(other), other);
  }
});
