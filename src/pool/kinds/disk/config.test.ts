import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Mistake, SectionReader } from '../../../settings/section.ts';
import { describeMatch } from '../../location/match/read-match.ts';
import { readDiskOptions } from './config.ts';

function read(section: Readonly<Record<string, unknown>>, name = 'big') {
  const mistakes: Mistake[] = [];
  const options = readDiskOptions(new SectionReader(section, [], mistakes), { name });
  return { options, mistakes: mistakes.map(({ message, path }) => `${path.join('.')}: ${message}`) };
}

describe('the configuration of pools of the kind disk', () => {
  test('names a device, or says which disks it is for', () => {
    assert.deepEqual(read({ device: '/dev/sdb' }), {
      mistakes: [],
      options: { device: '/dev/sdb', wipe: 'discard', adopt: false },
    });
    const match = { id: 'scsi-*', size: { minimum: '3Ti', maximum: '5Ti' }, rotational: true, bus: 'scsi' };
    const { mistakes, options } = read({ match, wipe: 'zero' });
    assert.deepEqual(mistakes, []);
    assert.equal(options.wipe, 'zero');
    assert.equal(describeMatch(options.match ?? {}), 'id scsi-*, minimum 3Ti, maximum 5Ti, rotational true, bus scsi');
  });

  const mistakes: readonly (readonly [Readonly<Record<string, unknown>>, RegExp])[] = [
    [{}, /^: needs a device.*; or match/],
    [{ device: '/dev/sdb', match: { bus: 'scsi' } }, /^match: set only one of device, match$/],
    [{ match: { bus: 'scsi' }, adopt: true }, /^adopt: is for a device that is named$/],
    [{ match: {} }, /^match: needs at least one of id, model, rotational, bus, size/],
    [{ match: null }, /^match: needs at least one of/],
    [{ match: 'scsi-*' }, /^match: must be a section with keys and values/],
    [{ match: { serial: 'x' } }, /^match.serial: unknown key/],
    [{ match: { id: '' } }, /^match.id: is empty/],
    [{ match: { bus: 'sata' } }, /^match.bus: must be one of ata, mmc/],
    [{ match: { rotational: 'yes' } }, /^match.rotational: must be true or false/],
    [{ match: { size: {} } }, /^match.size: needs a minimum, a maximum, or both/],
    [{ match: { size: '4Ti' } }, /^match.size: must be a section/],
    [{ match: { size: { minimum: 4n } } }, /^match.size.minimum: must be at least 1Mi/],
    [{ match: { size: { minimum: '5Ti', maximum: '3Ti' } } }, /^match.size.minimum: is more than the maximum$/],
  ];
  for (const [section, expected] of mistakes) {
    test(`a mistake: ${JSON.stringify(section, (_, value) => (typeof value === 'bigint' ? `${value}` : value))}`, () => {
      assert.match(read(section).mistakes[0] ?? '', expected);
    });
  }

  test('a section with match has a name that leaves room for that of each disk', () => {
    assert.deepEqual(read({ match: { bus: 'scsi' } }, 'a'.repeat(43)).mistakes, []);
    assert.match(read({ match: { bus: 'scsi' } }, 'a'.repeat(44)).mistakes[0] ?? '', /^: is too long: .* at most 43/);
  });
});
