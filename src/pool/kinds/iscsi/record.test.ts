import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { FailedPrecondition } from '../../../volume/errors.ts';
import { Secrets } from '../../../volume/secrets.ts';
import { type Chap, chapIn, nodeRecord } from './record.ts';

const names = {
  username: 'node.session.auth.username',
  password: 'node.session.auth.password',
  targetUsername: 'node.session.auth.username_in',
  targetPassword: 'node.session.auth.password_in',
} as const;
const node = { [names.username]: 'node', [names.password]: 'secret one' };
const both = { ...node, [names.targetUsername]: 'target', [names.targetPassword]: 'secret two' };

const context = { iqn: 'iqn.2026-01.org.example:a', replacementTimeoutSeconds: '1800' };
const portal = { address: 'fd00::1', port: '3260' };

describe('the names and passwords of CHAP', () => {
  test('come from the Secret, in both directions', () => {
    assert.equal(chapIn(undefined, undefined), undefined);
    assert.equal(chapIn(new Secrets({ other: 'a' }), undefined), undefined);
    assert.equal(chapIn(new Secrets(both), false), undefined);
    assert.deepEqual(chapIn(new Secrets(node), true), { username: 'node', password: 'secret one', target: undefined });
    assert.deepEqual(chapIn(new Secrets(both), undefined)?.target, { username: 'target', password: 'secret two' });
  });

  const refused: readonly Readonly<Record<string, string>>[] = [
    {},
    { [names.username]: 'node' },
    { ...node, [names.targetUsername]: 'target' },
    { ...node, [names.password]: 'a secret\n' },
    { ...node, [names.password]: 'a secret\nnode.startup = automatic' },
    { ...node, [names.password]: ' secret' },
    { ...node, [names.password]: 's'.repeat(256) },
    { ...node, [names.password]: 'sécret' },
  ];
  for (const fields of refused) {
    test(`are refused, and not repeated: ${JSON.stringify(Object.values(fields).map((text) => text.slice(0, 30)))}`, () => {
      assert.throws(
        () => chapIn(new Secrets(fields), true),
        (error) =>
          error instanceof FailedPrecondition && !/secret\b(?! with| that)|sécret|automatic/.test(error.message),
      );
    });
  }
});

describe('the record of a node', () => {
  test('logs in by hand, scans nothing, and has the name of this driver', () => {
    const lines = nodeRecord(context, portal, undefined).split('\n');
    for (const line of [
      'node.name = iqn.2026-01.org.example:a',
      'node.startup = manual',
      'node.session.scan = manual',
      'iface.iscsi_ifacename = holdfast',
      'node.conn[0].address = fd00::1',
      'node.session.timeo.replacement_timeout = 1800',
      'node.session.auth.authmethod = None',
    ]) {
      assert.ok(lines.includes(line), line);
    }
  });

  test('has a line for each setting, whatever the Secret holds', () => {
    const plain = nodeRecord(context, portal, undefined).split('\n').length;
    fc.assert(
      fc.property(fc.string(), fc.string(), (username, password) => {
        let chap: Chap | undefined;
        try {
          chap = chapIn(new Secrets({ [names.username]: username, [names.password]: password }), undefined);
        } catch (error) {
          assert.ok(error instanceof FailedPrecondition);
          return;
        }
        if (chap === undefined) return;
        const lines = nodeRecord(context, portal, chap).split('\n');
        assert.equal(lines.length, plain + 2);
        assert.ok(lines.includes(`${names.password} = ${password}`));
      }),
    );
  });
});
