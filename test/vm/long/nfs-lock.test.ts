import { describe, test } from 'node:test';
import { lockGoesOver } from '../nfs/lock-scene.ts';

describe('the lock of a pool on NFS', () => {
  test('keeps another client out, goes to it when its holder is cut off, and the holder finds out', () =>
    lockGoesOver('kernel'));
});
