import { nvmeTcpNodeKind } from '../../../src/pool/kinds/nvme-tcp/kind.ts';
import { encryptable } from '../../../src/pool/layers/luks/named/kind.ts';
import { liveMortally } from '../network-disk/mortal-life.ts';

const isEncrypted = process.argv[4]?.includes('"encryption"') === true;
const kind = encryptable(nvmeTcpNodeKind);
await (isEncrypted ? liveMortally(kind, 'ext4', { passphrase: 'correct horse battery' }) : liveMortally(kind));
