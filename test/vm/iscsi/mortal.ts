import { iscsiNodeKind } from '../../../src/pool/kinds/iscsi/kind.ts';
import { liveMortally } from '../network-disk/mortal-life.ts';

await liveMortally(iscsiNodeKind);
