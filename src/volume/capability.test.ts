import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type AccessMode, accessModes, excess, singleNodeModes } from './capability.ts';

const content = { type: 'mount', fsType: 'ext4' } as const;
const access = { type: 'mount', fsType: undefined, mountFlags: [] } as const;

describe('ST07 PB12: the modes that a volume can be used in', () => {
  const usable: Readonly<Record<AccessMode, readonly AccessMode[]>> = {
    SINGLE_NODE_WRITER: singleNodeModes,
    SINGLE_NODE_MULTI_WRITER: singleNodeModes,
    SINGLE_NODE_SINGLE_WRITER: ['SINGLE_NODE_WRITER', 'SINGLE_NODE_READER_ONLY', 'SINGLE_NODE_SINGLE_WRITER'],
    SINGLE_NODE_READER_ONLY: ['SINGLE_NODE_READER_ONLY'],
    MULTI_NODE_READER_ONLY: ['SINGLE_NODE_READER_ONLY', 'MULTI_NODE_READER_ONLY'],
    MULTI_NODE_SINGLE_WRITER: accessModes.filter((mode) => mode !== 'MULTI_NODE_MULTI_WRITER'),
    MULTI_NODE_MULTI_WRITER: accessModes,
  };
  for (const made of accessModes) {
    test(made, () => {
      for (const mode of accessModes) {
        const reason = excess({ content, accessModes: [made] }, { access, mode });
        if (usable[made].includes(mode)) assert.equal(reason, undefined);
        else assert.equal(reason, `it was made for ${made}, and ${mode} is more`);
      }
    });
  }

  test('of several that it was made for, any will do', () => {
    const made = { content, accessModes: ['SINGLE_NODE_SINGLE_WRITER', 'SINGLE_NODE_MULTI_WRITER'] } as const;
    for (const mode of singleNodeModes) assert.equal(excess(made, { access, mode }), undefined);
  });

  test('the access type is looked at first', () => {
    const made = { content, accessModes: ['SINGLE_NODE_READER_ONLY'] } as const;
    const reason = excess(made, { access: { type: 'block' }, mode: 'SINGLE_NODE_WRITER' });
    assert.match(`${reason}`, /raw block volume/);
  });

  test('it is used as what it holds', () => {
    const made = { content: { type: 'block' }, accessModes } as const;
    assert.match(`${excess(made, { access, mode: 'SINGLE_NODE_WRITER' })}`, /cannot be mounted/);
    assert.equal(excess(made, { access: { type: 'block' }, mode: 'SINGLE_NODE_WRITER' }), undefined);
    const xfs = { ...access, fsType: 'xfs' } as const;
    const reason = excess({ content, accessModes }, { access: xfs, mode: 'SINGLE_NODE_WRITER' });
    assert.equal(reason, 'it holds ext4, not xfs');
  });

  test('a directory is mounted, as no filesystem in particular', () => {
    const made = { content: { type: 'directory' }, accessModes } as const;
    const mode = 'SINGLE_NODE_WRITER';
    assert.equal(excess(made, { access, mode }), undefined);
    const reason = excess(made, { access: { ...access, fsType: 'ext4' }, mode });
    assert.equal(reason, 'it is a directory, which has no fsType: leave fsType (ext4) out');
    assert.equal(excess(made, { access: { ...access, fsType: 'nfs' }, mode }), undefined);
    assert.match(`${excess(made, { access: { type: 'block' }, mode })}`, /is a directory and cannot be used as a raw/);
  });
});
