import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { volumeIdFor } from '../../src/volume/id.ts';
import { freeDisks, make, mebibyte, poolsOn, setup, takesWhatIsFree } from './disk-kind/match-scene.ts';
import { nodeId } from './node/guest-node.ts';
import { startNode } from './node/start-node.ts';

describe('one section for all disks of a sort', () => {
  test('each that is free has a pool of its own, and nothing else is taken; a volume lies on the smallest that fits', async (t) => {
    await using started = await startNode(t, setup);
    const { node } = started;
    await takesWhatIsFree(started);
    const [small = '', large = ''] = await poolsOn(node, 'small', 'large');
    const first = await make(node, 'first', 32n);
    assert.deepEqual(first, {
      id: volumeIdFor(nodeId, small, 'first'),
      sizeBytes: (freeDisks.small - 4n) * mebibyte,
    });
    assert.deepEqual(await make(node, 'first', 32n), first, 'a second try finds it');
    assert.deepEqual(await make(node, 'second', 32n), {
      id: volumeIdFor(nodeId, large, 'second'),
      sizeBytes: (freeDisks.large - 4n) * mebibyte,
    });
    await assert.rejects(make(node, 'third', 32n), /RESOURCE_EXHAUSTED/);
  });
});
