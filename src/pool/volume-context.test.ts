import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { InvalidArgument } from '../volume/errors.ts';
import type { NodeKind } from './node-side.ts';
import { kindOfContext, ownContext } from './volume-context.ts';

const unused = () => assert.fail('not asked');

function kind(name: string, namingKeys: readonly string[], others: readonly string[] = []): NodeKind {
  return {
    ...{ name, namingKeys, keys: [...namingKeys, ...others] },
    traits: { detaching: 'automatic', accessModes: [] },
    read: unused,
    shows: unused,
    serverOf: unused,
    open: unused,
  };
}

const share = kind('share', ['server', 'share'], ['subDir']);
const fabric = kind('fabric', ['nqn'], ['server']);
const kinds = [share, fabric];

describe('volume_context', () => {
  test('what container orchestrators add is not the volume’s', () => {
    const injected = { 'csi.storage.k8s.io/pod.name': 'a', 'storage.kubernetes.io/csiProvisionerIdentity': 'b' };
    assert.deepEqual(ownContext({ ...injected, server: 's' }), { server: 's' });
  });

  test('its kind is named, or told by its keys', () => {
    const context = { server: 's', share: '/a', subDir: 'b' };
    const named = kindOfContext({ kind: 'share', version: '1', ...context }, kinds);
    assert.deepEqual([named.kind.name, named.context], ['share', context]);
    assert.deepEqual(kindOfContext(context, kinds), named);
    assert.equal(kindOfContext({ nqn: 'n', server: 's' }, kinds).kind, fabric);
  });

  const refused: Readonly<Record<string, readonly [Readonly<Record<string, string>>, RegExp]>> = {
    nothing: [{}, /say not which kind.*share \(server, share\), fabric \(nqn\)/],
    'the keys of no kind': [{ server: 's' }, /say not which kind/],
    'the keys of two kinds': [{ server: 's', share: '/a', nqn: 'n' }, /say not which kind/],
    'a kind that is not known': [{ kind: 'shares' }, /kind "shares" is not known.*did you mean 'share'/],
    'a key that is misspelled': [{ server: 's', share: '/a', subdir: 'b' }, /"subdir".*did you mean 'subDir'/],
    'a later version': [{ kind: 'share', version: '2' }, /version is "2", and this driver knows 1/],
    'a key of Object': [{ kind: 'share', constructor: 'x' }, /"constructor"/],
  };
  for (const [what, [context, message]] of Object.entries(refused)) {
    test(`refused: ${what}`, () => {
      assert.throws(
        () => kindOfContext(context, kinds),
        (error) => error instanceof InvalidArgument && message.test(error.message),
      );
    });
  }

  test('whatever it has, it is refused with an error for the user, or has no key but those of its kind', () => {
    const key = fc.oneof(
      fc.string(),
      fc.constantFrom('kind', 'version', 'server', 'share', 'subDir', 'nqn', '__proto__'),
    );
    const value = fc.oneof(fc.string(), fc.constantFrom('1', 'share', 'fabric'));
    fc.assert(
      fc.property(fc.dictionary(key, value), (context) => {
        try {
          const found = kindOfContext(context, kinds);
          assert.deepEqual(
            Object.keys(found.context).filter((each) => !found.kind.keys.includes(each)),
            [],
          );
        } catch (error) {
          if (!(error instanceof InvalidArgument)) throw error;
        }
      }),
    );
  });
});
