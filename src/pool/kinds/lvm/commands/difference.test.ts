import assert from 'node:assert/strict';
import { test } from 'node:test';
import { copyToldOf, tellsOfDifference } from './difference.ts';

test('that the disks of a group differ is known by the words of LVM', () => {
  // LVM 2.03.16, and in the last two lines newer ones.
  const said: Readonly<Record<string, boolean>> = {
    '  WARNING: bad metadata text on /dev/vdb in mda1': true,
    '  WARNING: Inconsistent metadata found for VG vg0.': true,
    '  WARNING: ignoring metadata seqno 2 on /dev/vdb for seqno 3 on /dev/vdc for VG vg0.': false,
    "  WARNING: Couldn't find device with uuid SOk4l3.": false,
    '  WARNING: outdated PV /dev/vdb seqno 3 has been removed in current VG vg0 seqno 5.': false,
    '  WARNING: Bad metadata text on /dev/vdb in mda1.': true,
    '  WARNING: Bad metadata header on /dev/vdb at 4096.': true,
  };
  for (const [line, expected] of Object.entries(said)) assert.equal(tellsOfDifference(line), expected, line);
});

test('a second device of a physical volume is known by the words of LVM', () => {
  const pvUuid = 'vLeFpV-j1Qf-603A-e4v4-Lpho-ulB5-rG5jbg';
  assert.deepEqual(copyToldOf(`  WARNING: Not using device /dev/sdb for PV ${pvUuid}.`), { path: '/dev/sdb', pvUuid });
  const preferred = `  WARNING: PV ${pvUuid} prefers device /dev/sda because device name matches previous.`;
  assert.equal(copyToldOf(preferred), undefined);
});
