import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { InvalidArgument } from '../../../volume/errors.ts';
import { iscsiKeys, parseIscsiContext } from './context.ts';
import { iscsiNodeKind } from './kind.ts';

const whole = { iqn: 'iqn.2026-01.org.example:a', portals: '10.0.0.1', lun: '3' };

describe('the context of an iscsi volume', () => {
  test('names a logical unit, and the portals of its target once each', () => {
    const portals = '10.0.0.1, 10.0.0.2:3261,[fd00::1]:3260,fd00::2,10.0.0.1:03260';
    const parsed = parseIscsiContext({ ...whole, portals, wwid: '36001405AABBCCDDEEFF001122334455' + '6' });
    assert.deepEqual(
      parsed.portals.map(({ address, port }) => `${address} ${port}`),
      ['10.0.0.1 3260', '10.0.0.2 3261', 'fd00::1 3260', 'fd00::2 3260'],
    );
    assert.deepEqual(
      [parsed.lun, parsed.wwid, parsed.chap, parsed.replacementTimeoutSeconds],
      ['3', 'naa.6001405aabbccddeeff0011223344556', undefined, '1800'],
    );
  });

  test('uses several portals at once if the node can, always, or never', () => {
    const multipath = (word: Readonly<Record<string, string>>) => parseIscsiContext({ ...whole, ...word }).multipath;
    assert.deepEqual(
      [multipath({}), multipath({ multipath: 'true' }), multipath({ multipath: 'false' })],
      [undefined, true, false],
    );
  });

  test('has the names of the in-tree driver and of csi-driver-iscsi', () => {
    const { chap, portals } = parseIscsiContext({
      ...{ iqn: whole.iqn, lun: '0', targetPortal: '10.0.0.1:3260', portals: '["10.0.0.2:3260"]' },
      ...{ iscsiInterface: 'default', discoveryCHAPAuth: 'true', sessionCHAPAuth: 'true' },
    });
    assert.equal(chap, true);
    assert.deepEqual(
      portals.map(({ address }) => address),
      ['10.0.0.1', '10.0.0.2'],
    );
    assert.equal(parseIscsiContext({ ...whole, portals: '[]', targetPortal: '10.0.0.1' }).portals.length, 1);
    assert.equal(parseIscsiContext({ ...whole, portals: '[fd00::1]:3260' }).portals[0]?.address, 'fd00::1');
  });

  const mistakes: Readonly<Record<string, readonly [Readonly<Record<string, string>>, RegExp]>> = {
    'no portal': [{ portals: '' }, /portals is missing/],
    'a portal that is a name': [{ portals: 'storage.example.org' }, /"storage.example.org" must be an IP address/],
    'a portal with port 0': [{ portals: '10.0.0.1:0' }, /must be an IP address/],
    'a list that is none': [{ portals: '["10.0.0.1",5]' }, /portals: must be a list/],
    'a lun that is no number': [{ lun: '0x1' }, /lun/],
    'a lun beyond the last': [{ lun: '16384' }, /at most 16383/],
    'an iqn that leads to another file': [{ iqn: 'iqn.2026-01/../../x' }, /iqn/],
    'an iqn with a second line': [{ iqn: 'iqn.2026-01.org.example:a\nnode.startup = automatic' }, /iqn/],
    'an iqn that is an option': [{ iqn: '--logout' }, /iqn/],
    'another interface': [{ iscsiInterface: 'iser' }, /iscsiInterface.*must be default/],
    'an identity that is none': [{ wwid: 'sda' }, /wwid/],
    'a time that is none': [{ replacementTimeout: '-1' }, /replacementTimeout/],
    'a flag that is none': [{ sessionCHAPAuth: 'yes' }, /sessionCHAPAuth/],
    'another word for several paths': [{ multipath: 'auto' }, /multipath/],
  };
  for (const [what, [changes, message]] of Object.entries(mistakes)) {
    test(`is refused with ${what}`, () => {
      assert.throws(
        () => parseIscsiContext({ ...whole, ...changes }),
        (error) => error instanceof InvalidArgument && message.test(error.message),
      );
    });
  }

  test('is parsed or refused, whatever it says, and never gives a line break or a slash to open-iscsi', () => {
    const context = fc.dictionary(fc.constantFrom(...iscsiKeys), fc.string());
    fc.assert(
      fc.property(context, (changes) => {
        try {
          const parsed = parseIscsiContext({ ...whole, ...changes });
          const words = [parsed.iqn, parsed.lun, parsed.replacementTimeoutSeconds];
          assert.doesNotMatch(
            [...words, ...parsed.portals.flatMap(({ address, port }) => [address, port])].join(' '),
            /[\n/]|(^| )-/,
          );
        } catch (error) {
          assert.ok(error instanceof InvalidArgument, String(error));
        }
      }),
    );
  });

  test('with a filesystem is for one node', () => {
    const { accessModes } = iscsiNodeKind.read(whole, { access: 'mount', fsType: 'xfs' });
    assert.ok(accessModes?.every((mode) => !mode.startsWith('MULTI_NODE')));
    assert.equal(iscsiNodeKind.read(whole, { access: 'block', fsType: undefined }).accessModes, undefined);
    assert.throws(() => iscsiNodeKind.read(whole, { access: 'mount', fsType: 'nfs' }), InvalidArgument);
  });
});
