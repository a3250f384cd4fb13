import { join } from 'node:path';
import { LoopDisk } from '../support/loop-disk-pool.ts';
import { DiskNode } from './disk-node.ts';

/** A node with images and two disks in a directory, which processes have one after the other. */
export function openKilledNode(directory: string): Promise<DiskNode> {
  const place = { join: (...parts: string[]) => join(directory, ...parts) };
  const diskOf = (name: string) => new LoopDisk(place, name, { dataMebibytes: 20 });
  return DiskNode.open(place, { one: diskOf('one'), two: diskOf('two') });
}
