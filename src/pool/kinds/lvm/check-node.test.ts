import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { scanningOf } from './check-node.ts';

describe('what LVM does by itself', () => {
  test('is read from its configuration', () => {
    const text = 'devices {\n\tscan_lvs=0\n}\nglobal {\n\tevent_activation=1\n}\n';
    assert.deepEqual(scanningOf(text), { looksIntoVolumes: false, activatesByEvent: true });
    assert.deepEqual(scanningOf(text.replace('0', '1').replace('event_activation=1', 'event_activation=0')), {
      looksIntoVolumes: true,
      activatesByEvent: false,
    });
  });

  test('is the worse, where a version does not know the setting', () => {
    assert.deepEqual(scanningOf('devices {\n\tdir="/dev"\n}\n'), { looksIntoVolumes: true, activatesByEvent: true });
  });
});
