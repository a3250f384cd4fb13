import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { groupStateOf, ownLvOf } from '../group/group-state.ts';
import type { Report } from './lvm.ts';
import { ReportReader, type ReportRow } from './report.ts';

/** The output of LVM 2.03.16. */
const printed = `  {
      "report": [
          {
              "vg": [
                  {"vg_name":"vg0", "vg_uuid":"og50K0-hxCo", "vg_attr":"wz--n-", "vg_size":"8581545984", "vg_extent_size":"4194304", "vg_missing_pv_count":"0", "vg_mda_size":"1044480", "vg_mda_free":"520192", "vg_tags":"a,b"}
              ]
              ,
              "pv": [
                  {"vg_name":"vg0", "pv_uuid":"NzoxX2", "pv_name":"/dev/vda", "pv_size":"4290772992", "pv_free":"4282384384", "pv_attr":"a--", "pv_missing":"", "pv_major":"254", "pv_minor":"0"},
                  {"vg_name":"vg0", "pv_uuid":"SOk4l3", "pv_name":"[unknown]", "pv_size":"4290772992", "pv_free":"4290772992", "pv_attr":"a-m", "pv_missing":"missing", "pv_major":"-1", "pv_minor":"-1"}
              ]
              ,
              "lv": [
                  {"vg_name":"vg0", "lv_name":"root", "lv_uuid":"q4k2ej", "lv_size":"8388608", "lv_attr":"-wi-ao----", "lv_layout":"linear", "sync_percent":"", "lv_tags":""},
                  {"vg_name":"vg0", "lv_name":"vol-aaaaaaaaaaaaaaaaaaaaaaaaaa.00c0ffee", "lv_uuid":"q4k2ek", "lv_size":"8388608", "lv_attr":"-wi-a-----", "lv_layout":"linear", "sync_percent":"", "lv_tags":"holdfast.draft"}
              ]
              ,
              "pvseg": [
                  {},
                  {}
              ]
          }
      ]
  }
`;

function read(text: string, pieceLength = text.length): Report {
  const report = { vg: [] as ReportRow[], pv: [] as ReportRow[], lv: [] as ReportRow[], seg: [] as ReportRow[] };
  const reader = new ReportReader((section, row) => {
    if (section === 'vg' || section === 'pv' || section === 'lv' || section === 'seg') report[section].push(row);
  });
  for (let at = 0; at < text.length; at += pieceLength) reader.read(text.slice(at, at + pieceLength));
  assert.equal(reader.isWhole, true);
  return { ...report, isDifferent: false, copies: [] };
}

describe('the report of LVM', () => {
  test('is read row by row, in whatever pieces it comes', () => {
    const whole = read(printed);
    assert.deepEqual(
      whole.lv.map((row) => row['lv_name']),
      ['root', 'vol-aaaaaaaaaaaaaaaaaaaaaaaaaa.00c0ffee'],
    );
    assert.equal(whole.pv.length, 2);
    for (const pieceLength of [1, 7, 100]) assert.deepEqual(read(printed, pieceLength), whole);
  });

  test('what LVM says in between on stdout is passed over', () => {
    const disturbed = printed.replace('"pv": [\n', '"pv": [\n  Retrying metadata scan.\n');
    assert.notEqual(disturbed, printed);
    assert.deepEqual(read(disturbed), read(printed));
  });

  test('values may have whatever JSON has', () => {
    fc.assert(
      fc.property(fc.array(fc.dictionary(fc.string(), fc.string())), (rows) => {
        const text = JSON.stringify({ report: [{ lv: rows }] });
        assert.deepEqual(read(text).lv, JSON.parse(JSON.stringify(rows)));
      }),
    );
  });

  test('one that ends in the middle is not whole', () => {
    const reader = new ReportReader(() => undefined);
    reader.read(printed.slice(0, -10));
    assert.equal(reader.isWhole, false);
  });

  test('what is free is what can be allocated on disks that are there; what is not ours is left out', () => {
    const state = groupStateOf(read(printed), 'vg0');
    assert.equal(state?.freeBytes, 4282384384n);
    assert.deepEqual([...(state?.lvs.keys() ?? [])], ['vol-aaaaaaaaaaaaaaaaaaaaaaaaaa.00c0ffee']);
    assert.equal(groupStateOf(read(printed), 'vg1'), undefined);
  });

  test('by what its thin pool knows a thin one', () => {
    const row = { lv_size: '0', lv_attr: 'Vwi---tz-k', lv_layout: 'thin,sparse', sync_percent: '' };
    const named = { ...row, lv_name: 'vol-aaaaaaaaaaaaaaaaaaaaaaaaaa.00c0ffee', lv_tags: 'holdfast.volume' };
    assert.equal(ownLvOf(named, { stripes: '0', thin_id: '7' })?.thinId, 7n);
    for (const segment of [undefined, {}, { thin_id: '' }, { thin_id: 'x' }]) {
      assert.equal(ownLvOf(named, segment)?.thinId, undefined);
    }
  });

  test('neither a tag nor a name alone makes a logical volume ours', () => {
    const row = { lv_size: '0', lv_attr: '-wi-------', lv_layout: 'linear', sync_percent: '' };
    const ownName = 'vol-aaaaaaaaaaaaaaaaaaaaaaaaaa.00c0ffee';
    assert.equal(ownLvOf({ ...row, lv_name: ownName, lv_tags: '' }), undefined);
    assert.equal(ownLvOf({ ...row, lv_name: ownName, lv_tags: 'holdfast.pool' }), undefined);
    assert.equal(ownLvOf({ ...row, lv_name: 'vol-mine', lv_tags: 'holdfast.volume' }), undefined);
    assert.equal(ownLvOf({ ...row, lv_name: 'root', lv_tags: 'holdfast.pool' }), undefined);
    assert.equal(ownLvOf({ ...row, lv_name: ownName, lv_tags: 'x,holdfast.volume' })?.state, 'volume');
    assert.equal(ownLvOf({ ...row, lv_name: 'holdfast-pool', lv_tags: 'holdfast.pool' })?.state, 'pool');
  });
});
