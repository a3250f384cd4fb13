import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ObjectState } from './label/payload.ts';
import { DiskSpace } from './space.ts';

const payload = {
  poolId: '7d0f1f4c-64ab-4a3e-8e69-2a3d6a1c7a77',
  disk: { name: 'wwid t10.disk', sizeBytes: 1n << 30n },
  data: { offsetBytes: 2n << 20n, lengthBytes: 1n << 29n },
};

test('a disk that has something is full, whatever its size, and says of what', async () => {
  const storageWith = (state: ObjectState) => {
    const object = { name: 'vol-aaaaaaaaaaaaaaaaaaaaaaaaaa.00000000', state };
    return new DiskSpace({ payload: { ...payload, object }, obstacle: undefined }).storage();
  };
  assert.match((await storageWith('volume')).whyFull ?? '', /^has its one volume already/);
  assert.match((await storageWith('removed')).whyFull ?? '', /^has one volume, .* still being wiped/);
  const blank = await new DiskSpace({ payload, obstacle: undefined }).storage();
  assert.deepEqual([blank.freeBytes, blank.whyFull], [1n << 29n, undefined]);
});
