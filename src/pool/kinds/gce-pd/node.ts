import type { DiskFinder } from '../../cloud-disk/attached/finder.ts';
import { cloudNodeKind } from '../../cloud-disk/node-kind.ts';
import type { NodeKind } from '../../node-side.ts';
import { diskNameIn, gceDiskIds } from './disk-id.ts';
import { GoogleFinder } from './google-finder.ts';

/** Persistent disks, which Google attaches to the node. @param finder for tests */
export function gceNodeKind(finder: DiskFinder = new GoogleFinder()): NodeKind {
  return cloudNodeKind({ form: gceDiskIds, noun: 'a persistent disk', finder, serialOf: diskNameIn });
}
