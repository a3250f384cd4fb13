import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Stack } from '../../kernel/block/stacked.ts';
import { nestedIn } from './nested.ts';

const id = 'a'.repeat(26);
const device = (kernelName: string, changes: Partial<Stack> = {}): Stack => ({
  ...{ kernelName, name: undefined, backingFile: undefined, holders: [] },
  ...changes,
});

test("EN08: devices that the node has made from the inside of a volume are reported, a volume's own parts are not", () => {
  const backingFile = `/var/lib/holdfast/pool/volumes/vol-${id}/data`;
  const quiet = [
    device('loop0', { backingFile, holders: ['dm-0'] }),
    device('dm-0', { name: `holdfast-vol-${id}` }),
    device('loop1', { backingFile: '/home/image.img', holders: ['dm-9'] }),
    device('dm-9', { name: 'vg0-root' }),
    device('dm-1', { name: `vg0-vol--${id}.1a2b_rimage_0`, holders: ['dm-2'] }),
    device('dm-2', { name: `vg0-vol--${id}.1a2b`, holders: ['dm-3'] }),
    device('dm-3', { name: `holdfast-vol-${id}` }),
    device('sda', { holders: ['dm-9'] }),
  ];
  assert.deepEqual(nestedIn(quiet), []);
  const loud = [
    device('loop0', { backingFile, holders: ['md127'] }),
    device('md127'),
    device('dm-0', { name: `holdfast-vol-${id}`, holders: ['dm-1'] }),
    device('dm-1', { name: 'tenant-lv' }),
    device('dm-2', { name: `holdfast-disk-vol-${id}.0011aabb`, holders: ['gone'] }),
  ];
  assert.deepEqual(nestedIn(loud), [
    '/dev/md127 on /dev/loop0',
    `/dev/dm-1 (tenant-lv) on /dev/dm-0 (holdfast-vol-${id})`,
    `/dev/gone on /dev/dm-2 (holdfast-disk-vol-${id}.0011aabb)`,
  ]);
});
