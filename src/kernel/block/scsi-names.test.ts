import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { unitNamesIn } from './scsi-names.ts';

const naa = '6001405aabbccddeeff0011223344556';
const eui = '0011223344556677';

function designator(codeSet: number, kind: number, bytes: Buffer): Buffer {
  return Buffer.concat([Buffer.from([codeSet, kind, 0, bytes.length]), bytes]);
}

function page(...designators: readonly Buffer[]): Buffer {
  const all = Buffer.concat(designators);
  const header = Buffer.from([0, 0x83, 0, 0]);
  header.writeUInt16BE(all.length, 2);
  return Buffer.concat([header, all]);
}

const hex = (digits: string) => Buffer.from(digits, 'hex');
const ofNaa = designator(1, 3, hex(naa));
const ofEui = designator(1, 2, hex(eui));
const ofVendor = designator(2, 1, Buffer.from('LIO-ORG disk:serial'));
const ofPort = designator(1, 0x13, hex('5001405aabbccdde'));

describe('the names of a logical unit', () => {
  test('are all that it has of NAA and EUI-64, in one order', () => {
    for (const each of [page(ofVendor, ofEui, ofNaa, ofPort), page(ofNaa, ofPort, ofVendor, ofEui)]) {
      assert.deepEqual(unitNamesIn(each), [`naa.${naa}`, `eui.${eui}`]);
    }
    const short = designator(1, 3, hex('5001405aabbccdde'));
    assert.deepEqual(unitNamesIn(page(short, ofNaa)), [`naa.${naa}`, 'naa.5001405aabbccdde']);
    const text = designator(3, 8, Buffer.from(`naa.${naa.toUpperCase()}\0\0\0`));
    assert.deepEqual(unitNamesIn(page(text)), [`naa.${naa}`]);
  });

  test('are none of a port, of a vendor, or of something else', () => {
    for (const each of [ofPort, ofVendor, designator(2, 3, hex(naa)), designator(1, 3, hex('60')), Buffer.alloc(0)]) {
      assert.deepEqual(unitNamesIn(page(each)), []);
    }
  });

  test('are those that are whole, in a page that was cut off', () => {
    const whole = page(ofNaa, ofEui);
    for (let length = 0; length < whole.length; length++) {
      const names = unitNamesIn(whole.subarray(0, length));
      assert.ok(
        names.every((each) => each === `naa.${naa}`),
        `${length}: ${names.join()}`,
      );
    }
  });
});
