import { nvmeTcpNodeKind } from '../../../src/pool/kinds/nvme-tcp/kind.ts';
import { encryptable } from '../../../src/pool/layers/luks/named/kind.ts';
import { liveMortally } from '../network-disk/mortal-life.ts';

/** A passphrase would be stretched, which takes the virtual machine long. */
const key = Buffer.alloc(32, 0x5a).toString('base64');
const isEncrypted = process.argv[4]?.includes('"encryption"') === true;
const kind = encryptable(nvmeTcpNodeKind);
await (isEncrypted ? liveMortally(kind, 'ext4', { key }) : liveMortally(kind));
