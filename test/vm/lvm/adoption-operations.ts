import assert from 'node:assert/strict';
import type { Pool } from '../../../src/pool/pool.ts';
import { lvm } from '../../support/lvm-pool.ts';
import { idOf, type Operation } from './operations.ts';

/** The one group of the machine, of which a pool knows no name. */
function onlyGroup(): string {
  return lvm('vgs', '--noheadings', '-o', 'vg_name').trim();
}

export const outsidePath = (name: string) => `/dev/${onlyGroup()}/outside-${name}`;

/** Its tags, or undefined if there is none of that name. */
export function tagsOutside(name: string): string | undefined {
  const rows = lvm('lvs', '--noheadings', '--separator', ' ', '-o', 'lv_name,lv_tags', onlyGroup()).split('\n');
  const row = rows.find((each) => each.trim().split(' ')[0] === `outside-${name}`);
  return row?.trim().split(' ')[1] ?? (row === undefined ? undefined : '');
}

/** Those of the group that are activated at boot, but for what a pool has for itself. */
export function activatedAtBoot(): string[] {
  const rows = lvm('lvs', '--noheadings', '--separator', ' ', '-o', 'lv_name,lv_autoactivation', onlyGroup());
  return rows.split('\n').flatMap((row) => {
    const [name = '', autoactivation = ''] = row.trim().split(' ');
    return autoactivation === 'enabled' && name !== 'holdfast-pool' ? [name] : [];
  });
}

/** A logical volume of somebody else, with a tag of his. */
export function makeOutside(name: string, ...words: readonly string[]): void {
  lvm('lvcreate', '--yes', '--size', '32m', '--addtag', 'mine', '--name', `outside-${name}`, ...words, onlyGroup());
}

export async function adopt(pool: Pool, name: string, path = outsidePath(name)): Promise<void> {
  const accessModes = ['SINGLE_NODE_WRITER'] as const;
  if ((await pool.find(idOf(name))) !== undefined) return;
  await pool.adopt({ id: idOf(name), name, path, sizeBytes: undefined, accessModes, parameters: {} });
}

export async function release(pool: Pool, name: string): Promise<void> {
  if ((await pool.find(idOf(name))) !== undefined) await pool.release(idOf(name), undefined);
}

/** A logical volume that is somebody else's becomes a volume, and is somebody else's again. */
export const adoptionOperations: Readonly<Record<string, Operation>> = {
  adopt: {
    prepare: async (_pool, name) => makeOutside(name),
    run: adopt,
    check: async (pool, name) => {
      assert.equal((await pool.find(idOf(name)))?.name, name);
      assert.equal(tagsOutside(name), undefined);
      assert.ok(!activatedAtBoot().some((each) => each.startsWith(idOf(name))), 'lvm 13');
    },
  },
  release: {
    prepare: async (pool, name) => {
      makeOutside(name);
      await adopt(pool, name);
    },
    run: release,
    check: async (pool, name) => {
      assert.equal(await pool.find(idOf(name)), undefined);
      assert.equal(tagsOutside(name), 'mine');
      assert.ok(activatedAtBoot().includes(`outside-${name}`), 'lvm 13');
    },
  },
};
