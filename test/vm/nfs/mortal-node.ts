import { nfsNodeKind } from '../../../src/pool/kinds/nfs/node.ts';
import { liveMortally } from '../network-disk/mortal-life.ts';

await liveMortally(nfsNodeKind, 'nfs4');
