import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { singleNodeModes } from '../../../../volume/capability.ts';
import { InvalidArgument } from '../../../../volume/errors.ts';
import { parseHandle } from '../../../../volume/handle.ts';
import type { NodeKind, VolumeOnNode } from '../../../node-side.ts';
import { encryptable } from './kind.ts';

const handle = parseHandle('database') ?? assert.fail();
const unused = () => assert.fail('not asked');

/** A kind that would refuse a key that it does not know. */
const inner: NodeKind = {
  name: 'lun',
  traits: { detaching: 'explicit', accessModes: ['MULTI_NODE_MULTI_WRITER'] },
  namingKeys: ['lun'],
  keys: ['lun', 'presents'],
  read(context, { access }) {
    requireOwn(context);
    if (context['presents'] === 'directory') return { content: { type: 'directory' } };
    return { content: access === 'block' ? { type: 'block' } : { type: 'mount', fsType: 'xfs' } };
  },
  requireHandle: (_handle, context) => requireOwn(context),
  shows: ({ content, context }, { device }) => {
    requireOwn(context);
    assert.equal(content.type, 'block');
    return device?.minor === 7 ? 'whole' : undefined;
  },
  serverOf: ({ context }) => requireOwn(context),
  fateOf: ({ context }) => requireOwn(context),
  diskOf: ({ context }) => requireOwn(context),
  askServer: async ({ context }) => requireOwn(context),
  open: unused,
};

function requireOwn(context: VolumeOnNode['context']): string {
  assert.deepEqual(
    Object.keys(context).filter((key) => !inner.keys.includes(key)),
    [],
  );
  return context['lun'] ?? assert.fail();
}

const kind = encryptable(inner);
const block = { access: 'block', fsType: undefined } as const;
const encrypted = { lun: '1', encryption: 'luks2' };
const volume: VolumeOnNode = {
  ...{ handle, content: { type: 'mount', fsType: 'xfs' }, accessModes: singleNodeModes, provisioning: 'thin' },
  context: encrypted,
};

describe('encryption of volumes that PersistentVolumes name', () => {
  test('is a key of each kind, which the kind itself never sees', async () => {
    assert.deepEqual(kind.keys, ['lun', 'presents', 'encryption']);
    kind.requireHandle?.(handle, encrypted);
    assert.equal(kind.serverOf(volume), '1');
    assert.equal(kind.fateOf?.(volume), '1');
    assert.equal(kind.diskOf?.(volume), '1');
    assert.equal(await kind.askServer?.(volume), '1');
    assert.equal(kind.shows(volume, { device: { major: 8, minor: 7 }, mount: undefined }), 'whole');
    assert.equal(kind.shows(volume, { device: { major: 8, minor: 6 }, mount: undefined }), undefined);
  });

  test('is for one node at a time, also as a raw block device', () => {
    assert.deepEqual(kind.read(encrypted, block), { content: { type: 'block' }, accessModes: singleNodeModes });
    assert.deepEqual(kind.read({ lun: '1' }, block), { content: { type: 'block' } });
  });

  test('is refused for a volume that this driver has made, and for no other', () => {
    const own = parseHandle(`vol-${'a'.repeat(26)}`) ?? assert.fail();
    kind.requireHandle?.(own, { lun: '1' });
    assert.throws(
      () => kind.requireHandle?.(own, encrypted),
      new InvalidArgument(
        `volume ${own} was made by this driver, without encryption: leave encryption out of its volumeAttributes, or write another volumeHandle for a disk that was made elsewhere.`,
      ),
    );
    // A kind that takes any text.
    const { requireHandle: _, ...free } = inner;
    assert.throws(() => encryptable(free).requireHandle?.(own, encrypted), InvalidArgument);
  });

  test('is refused by its type, and where a volume has no device', () => {
    assert.throws(
      () => kind.read({ lun: '1', encryption: 'none' }, block),
      new InvalidArgument('volumeAttributes: encryption is "none"; it can be luks2, or left out.'),
    );
    assert.throws(
      () => kind.read({ ...encrypted, presents: 'directory' }, block),
      new InvalidArgument(
        'volumeAttributes: encryption needs a device, and this volume of kind lun is a directory: leave it out.',
      ),
    );
  });
});
