import type { TestContext } from 'node:test';
import { type StartedNode, startNode } from '../node/start-node.ts';

/** 64 MiB: a wipe takes no longer than all else. */
const sizeGiB = 1 / 16;

/** Disks are known by their serial numbers, which are their names here; the node's own disk is on another bus. */
const config = `
pools:
  disks: { kind: disk, id: ['*spindle-?'], sickAfter: 10m }
`;

/** What has to be done after each boot. */
export function awaitDisks(count: number): string {
  const isThere = `[ "$(ls /sys/block | grep -c '^sd')" = ${count} ]`;
  return `modprobe -a virtio_scsi sd_mod && until ${isThere}; do sleep 0.1; done`;
}

/** A node whose pool is of so many blank disks on scsi, the n-th with the serial number spindle-n. */
export function startNodeWithDisks(t: TestContext, count: number): Promise<StartedNode> {
  const disks = Array.from({ length: count }, (_, index) => ({
    name: `spindle-${index}`,
    sizeGiB,
    bus: 'scsi' as const,
  }));
  return startNode(t, { config, pools: ['disks'], disks, prepare: awaitDisks(count) });
}
