import { nvmeTcpNodeKind } from '../../../src/pool/kinds/nvme-tcp/kind.ts';
import { liveMortally } from '../network-disk/mortal-life.ts';

await liveMortally(nvmeTcpNodeKind);
