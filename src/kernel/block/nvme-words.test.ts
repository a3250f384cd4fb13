import assert from 'node:assert/strict';
import { test } from 'node:test';
import { wordsIn } from './nvme-words.ts';

test('what the kernel says of the host side of NVMe, without the name of a controller that is gone', () => {
  const record = '4,1234,567890,-;nvme nvme0: Connect Invalid Data Parameter, subsysnqn "nqn.a"\n SUBSYSTEM=nvme\n';
  assert.equal(wordsIn(record), 'Connect Invalid Data Parameter, subsysnqn "nqn.a"');
  assert.equal(wordsIn('6,1,2,-;nvme_fabrics: a; b'), 'nvme_fabrics: a; b');
});

test('nothing of others, and no message that may show a key', () => {
  for (const record of [
    '6,1,2,-;nvmet: creating controller 1',
    '6,1,2,-;EXT4-fs (nvme0n1): mounted filesystem',
    "4,1,2,-;nvme_fabrics: unknown parameter or missing value 'dhchap_secret=DHHC-1:00:abc:' in ctrl creation request",
    'nvme nvme0: not a record',
    '',
  ]) {
    assert.equal(wordsIn(record), undefined, record);
  }
});
