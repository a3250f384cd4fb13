import { type DiskFinder, NvmeFinder } from '../../cloud-disk/attached/finder.ts';
import { cloudNodeKind } from '../../cloud-disk/node-kind.ts';
import type { NodeKind } from '../../node-side.ts';
import { ebsDiskIds, serialOf } from './context.ts';

/** EBS volumes, which EC2 attaches to the node. @param finder for tests */
export function ebsNodeKind(finder: DiskFinder = new NvmeFinder()): NodeKind {
  return cloudNodeKind({ form: ebsDiskIds, noun: 'an EBS volume', finder, serialOf });
}
