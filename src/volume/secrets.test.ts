import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { inspect } from 'node:util';
import { Secrets } from './secrets.ts';

describe('secrets', () => {
  const secrets = new Secrets({ key: 'nobody may see it' });
  const holder = { id: 'vol-1', secrets, copied: [{ secrets }] };

  test('X01: neither JSON nor the console shows them, nor text that is made of them', () => {
    const shown = [JSON.stringify(holder), inspect(holder, { depth: 9, showHidden: true }), `${secrets}`];
    for (const text of shown) assert.ok(!text.includes('nobody'), text);
    assert.equal(JSON.stringify({ id: 'vol-1', secrets }), '{"id":"vol-1"}');
    assert.deepEqual(Object.values({ ...secrets }), []);
  });

  test('are told one by one', () => {
    assert.equal(secrets.get('key'), 'nobody may see it');
    assert.equal(secrets.get('toString'), undefined);
    assert.deepEqual(secrets.names(), ['key']);
  });
});
