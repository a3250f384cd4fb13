import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KernelError } from '../../kernel/call/errno.ts';
import { volumeIdFor } from '../../volume/id.ts';
import type { CatalogParts } from './parts.ts';
import { destroyUnreadable } from './unreadable.ts';

const id = volumeIdFor('node', 'pool', 'a');
const encryption = { type: 'luks2', headerBytes: 16 << 20, keyId: 'key-a' } as const;
const [EIO, ENOSPC] = [5, 28];

/** Parts of a catalog whose keys cannot be written over. */
function failing(errno: number) {
  const destroyed: string[] = [];
  const parts: unknown = {
    name: 'pool',
    log: { warn: () => undefined },
    backend: {
      provisioner: {
        shred: async () => {
          throw new KernelError({ syscall: 'pwrite', errno, path: 'data' });
        },
      },
    },
    trash: { destroy: (ref: string) => destroyed.push(ref) },
  };
  return { parts: parts as CatalogParts, destroyed };
}

test('EN07: what is encrypted is not called gone while its keys are there; it is destroyed all the same', async () => {
  const { destroyed, parts } = failing(EIO);
  await assert.rejects(destroyUnreadable(parts, 'ref', { id, encryption }), { code: 'EIO' });
  assert.deepEqual(destroyed, ['ref']);
});

test('a full disk keeps nobody from deleting', async () => {
  const { destroyed, parts } = failing(ENOSPC);
  await destroyUnreadable(parts, 'ref', { id, encryption });
  assert.deepEqual(destroyed, ['ref']);
});
