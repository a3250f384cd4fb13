import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { InvalidArgument } from '../../../volume/errors.ts';
import { nvmeKeys, parseNvmeContext } from './context.ts';

const uuid = '0123ABCD-4567-4789-89ab-0123456789ab';
const whole = { nqn: 'nqn.2026-01.org.example:a', portals: '10.0.0.1', uuid };

describe('the context of an nvme-tcp volume', () => {
  test('names a namespace by its identity, and the portals of its target once each', () => {
    const portals = '10.0.0.1, 10.0.0.2:4421,[fd00::1]:4420,fd00::2,10.0.0.1:04420';
    const parsed = parseNvmeContext({ ...whole, portals, ctrlLossTmo: '-1' });
    assert.deepEqual(parsed.identity, { kind: 'uuid', digits: '0123abcd4567478989ab0123456789ab' });
    assert.deepEqual(
      parsed.portals.map(({ address, port }) => `${address} ${port}`),
      ['10.0.0.1 4420', '10.0.0.2 4421', 'fd00::1 4420', 'fd00::2 4420'],
    );
    assert.equal(parsed.options['ctrl_loss_tmo'], '-1');
  });

  test('has the names of other drivers', () => {
    const { nqn, portals } = parseNvmeContext(whole);
    for (const context of [
      { nqn, deviceUUID: uuid, targetTrAddr: '10.0.0.1', targetTrPort: '4420', targetTrType: 'tcp' },
      { nqn, uuid, transport: 'tcp://10.0.0.1:4420' },
    ]) {
      assert.deepEqual(parseNvmeContext(context).portals, portals);
    }
  });

  const refused: Readonly<Record<string, readonly [Readonly<Record<string, string>>, RegExp]>> = {
    'no identity': [{ nqn: 'a', portals: '10.0.0.1' }, /uuid or nguid is missing/],
    'an identity of zeros': [{ ...whole, uuid: '0'.repeat(32) }, /uuid: must have 32 hexadecimal digits/],
    'no portal': [{ nqn: 'a', uuid }, /portals is missing/],
    'portals twice': [{ ...whole, targetTrAddr: '10.0.0.1' }, /once/],
    'a name as portal': [{ ...whole, portals: 'target.example.org' }, /must be an IP address/],
    'a port that is none': [{ ...whole, portals: '10.0.0.1:0' }, /must be an IP address/],
    'an nqn that would be another option': [{ ...whole, nqn: 'a,duplicate_connect' }, /without a comma/],
    'half a host': [{ ...whole, hostNqn: 'nqn.a' }, /belong together/],
    'another transport': [{ ...whole, targetTrType: 'rdma' }, /must be tcp/],
    'a time that is none': [{ ...whole, ctrlLossTmo: '5s' }, /ctrlLossTmo: must be a whole number/],
  };
  for (const [what, [context, message]] of Object.entries(refused)) {
    test(`refused: ${what}`, () => {
      assert.throws(
        () => parseNvmeContext(context),
        (error) => error instanceof InvalidArgument && message.test(error.message),
      );
    });
  }

  test('never brings a comma, a line or another option to the kernel, whatever it has', () => {
    const value = fc.oneof(fc.string(), fc.constantFrom(uuid, '10.0.0.1', '[fd00::1%eth0,x]:1', '-1', '4420', 'a\nb'));
    const contexts = fc
      .dictionary(fc.constantFrom(...nvmeKeys), value)
      .map((some): Readonly<Record<string, string>> => ({ ...whole, ...some }));
    fc.assert(
      fc.property(contexts, (context) => {
        let parsed: ReturnType<typeof parseNvmeContext>;
        try {
          parsed = parseNvmeContext(context);
        } catch (error) {
          if (!(error instanceof InvalidArgument)) throw error;
          return;
        }
        const { host, nqn, options, portals } = parsed;
        const words = [nqn, ...Object.values(options), ...Object.values(host ?? {})];
        for (const word of [...words, ...portals.flatMap(({ address, port }) => [address, port])]) {
          assert.match(word, /^[!-+\--~]+$/);
        }
      }),
    );
  });
});
