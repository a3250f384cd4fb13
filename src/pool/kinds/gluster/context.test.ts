import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { InvalidArgument } from '../../../volume/errors.ts';
import { kindOfContext } from '../../volume-context.ts';
import { glusterKeys, nameOf, parseGlusterContext } from './context.ts';
import { glusterNodeKind } from './kind.ts';

const whole = { servers: 'gluster1,gluster2', volume: 'gv0' };

describe('the context of a gluster volume', () => {
  test('names a volume, servers once each, and a directory with or without slashes around it', () => {
    assert.deepEqual(parseGlusterContext(whole), {
      ...{ servers: ['gluster1', 'gluster2'], volume: 'gv0', directory: '', options: [] },
    });
    const parsed = parseGlusterContext({
      ...{ servers: ' 10.0.0.1, [fd00::1],10.0.0.1,', volume: 'gv0', subDir: '/a/b/' },
    });
    assert.deepEqual([parsed.servers, parsed.directory], [['10.0.0.1', 'fd00::1'], 'a/b']);
    assert.equal(nameOf(parsed), 'gv0/a/b of 10.0.0.1,fd00::1');
  });

  test('has the path of the in-tree driver, and the options of mount.glusterfs', () => {
    const parsed = parseGlusterContext({
      ...{ servers: 'gluster1', path: '/gv0/a/b' },
      mountOptions: 'backup-volfile-servers=gluster2:gluster3,log-level=WARNING,acl,attribute-timeout=0.5',
    });
    assert.deepEqual(parsed, {
      ...{ servers: ['gluster1', 'gluster2', 'gluster3'], volume: 'gv0', directory: 'a/b' },
      options: ['--log-level=WARNING', '--acl', '--attribute-timeout=0.5'],
    });
    assert.equal(parseGlusterContext({ servers: 'a', path: 'gv0' }).directory, '');
  });

  test('is known by servers and volume, if it names no kind', () => {
    const kinds = [glusterNodeKind(undefined)];
    assert.equal(kindOfContext(whole, kinds).kind.name, 'gluster');
    assert.throws(() => kindOfContext({ ...whole, subdir: 'a' }, kinds), /"subdir".*did you mean .subDir/);
    assert.throws(
      () => glusterNodeKind(undefined).read(whole, { access: 'block', fsType: undefined }),
      /no raw block device/,
    );
  });

  const mistakes: Readonly<Record<string, readonly [Readonly<Record<string, string>>, RegExp]>> = {
    'no server': [{ servers: ' , ' }, /servers is missing/],
    'a server that is an option': [{ servers: '--volfile=/etc/passwd' }, /servers must be the name/],
    'no volume': [{ volume: '' }, /volume must begin with the name/],
    'a volume that is an option': [{ volume: '-N' }, /volume must begin/],
    'a volume that is another file': [{ volume: '../x' }, /volume must begin/],
    'a way out of the volume': [{ subDir: 'a/../../b' }, /subDir must be a path in the share without '\.\.'/],
    'a way out in the path': [{ volume: '', path: 'gv0/..' }, /path says the same as volume/],
    'endpoints of the in-tree driver': [{ endpoints: 'cluster' }, /endpoints is not read: write the hosts/],
    'an option that is none': [{ mountOptions: 'log-lvel=INFO' }, /has "log-lvel", which is not passed on.*log-level/],
    'an option that runs a program': [{ mountOptions: 'fuse-mountopts=dev' }, /which is not passed on/],
    'a property of every object': [{ mountOptions: 'constructor' }, /which is not passed on/],
    'a value where there is none': [{ mountOptions: 'acl=1' }, /wrong value for acl/],
    'a wrong value': [{ mountOptions: 'log-level=LOUD' }, /wrong value for log-level/],
    'a second server that is none': [{ mountOptions: 'backup-volfile-servers=a:-b' }, /mountOptions must be the name/],
  };
  for (const [what, [change, message]] of Object.entries(mistakes)) {
    test(`refuses ${what}`, () => {
      assert.throws(
        () => parseGlusterContext({ ...whole, ...change }),
        (error) => {
          assert.ok(error instanceof InvalidArgument);
          assert.match(error.message, message);
          assert.ok(error.message.length <= 200, error.message);
          return true;
        },
      );
    });
  }

  test('refuses a path that leads out of the volume', () => {
    assert.throws(() => parseGlusterContext({ servers: 'a', path: 'gv0/../b' }), /path must be a path in the share/);
    assert.throws(() => parseGlusterContext({ servers: 'a' }), /volume is missing/);
  });

  test('any text is read, or refused with an error for people; what is read begins no argument', () => {
    const text = fc.string({ unit: 'binary', maxLength: 60 });
    const context = fc.dictionary(fc.constantFrom(...glusterKeys), text);
    fc.assert(
      fc.property(context, (given) => {
        try {
          const { directory, servers, volume } = parseGlusterContext(given);
          for (const word of [volume, ...servers]) assert.match(word, /^[A-Za-z0-9_:]/);
          assert.ok(!directory.split('/').includes('..') && !directory.startsWith('/'));
        } catch (error) {
          if (!(error instanceof InvalidArgument)) throw error;
        }
      }),
    );
  });
});
