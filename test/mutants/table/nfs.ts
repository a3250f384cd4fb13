import type { Mutant } from '../mutant.ts';

const options = { file: 'src/kernel/nfs/options.ts', killer: 'src/kernel/nfs/options.test.ts' } as const;
const rpc = { file: 'src/kernel/nfs/rpc.ts', killer: 'src/kernel/nfs/rpc.test.ts' } as const;
const server = { file: 'src/kernel/nfs/server.ts', killer: 'src/kernel/nfs/server.test.ts' } as const;
const names = {
  file: 'src/pool/kinds/nfs/volume-names.ts',
  killer: 'src/pool/kinds/nfs/volume-names.test.ts',
} as const;
const config = { file: 'src/settings/shares.ts', killer: 'src/pool/kinds/nfs/config.test.ts' } as const;

/** Volumes on NFS, as far as no server is needed. */
export const nfsMutants: readonly Mutant[] = [
  {
    name: 'no option of NFS leads to another server',
    ...options,
    text: 'value === undefined ? flags.has(key) : valued.get(key)?.test(value) === true',
    replacement: 'value === undefined ? flags.has(key) : valued.get(key)?.test(value) !== false',
  },
  {
    name: 'no version of NFS is mounted that was not asked for',
    ...options,
    text: "if (found === undefined && value !== '4')",
    replacement: "if (found === undefined && value === '')",
  },
  {
    name: 'a reply to another call is none of an NFS server',
    ...rpc,
    text: 'reply.readUInt32BE(0) !== xid || ',
    replacement: '',
  },
  {
    name: 'a verifier is not read beyond the reply',
    ...rpc,
    text: "  if (statusAt + 4 > length) return { state: 'foreign' };\n",
    replacement: '',
  },
  {
    name: 'a server without NFS 4 is not mounted',
    ...server,
    text: "if (reply.state === 'success') return {",
    replacement: "if (reply.state !== 'foreign') return {",
  },
  {
    name: 'the path of a pool on NFS does not lead out of its share',
    ...config,
    text: "name !== '..' && ",
    replacement: '',
  },
  {
    name: 'a directory that a person named is mounted without following links',
    file: 'src/pool/kinds/nfs/context.ts',
    killer: 'src/pool/kinds/nfs/context.test.ts',
    text: ' && parseVolumeId(id) !== undefined',
    replacement: '',
  },
  {
    name: 'a mount of a directory beside a volume on NFS is not taken for it',
    file: 'src/pool/kinds/nfs/node.ts',
    killer: 'src/pool/kinds/nfs/node.test.ts',
    text: 'mount.source.startsWith(below)',
    replacement: 'mount.source.startsWith(source)',
  },
  {
    name: 'no name of a volume on NFS is made inside of another volume',
    ...names,
    text: 'if (!isLast && status.isDirectory()) continue;',
    replacement: 'if (!isLast) continue;',
  },
  {
    name: 'a name that a volume on NFS has is not taken from it',
    ...names,
    text: "if (isLast && owner === 'none') return;",
    replacement: 'if (isLast) return;',
  },
  {
    name: 'a name on NFS goes with its own volume alone',
    ...names,
    text: 'if (found === undefined || idIn(found) !== id) return;',
    replacement: 'if (found === undefined) return;',
  },
  {
    name: 'no value of a claim adds a step to a name on NFS',
    file: 'src/pool/kinds/nfs/parameters.ts',
    killer: 'src/pool/kinds/nfs/parameters.test.ts',
    text: "value === '' || value.includes('/')",
    replacement: "value === ''",
  },
  {
    name: 'a claim whose PersistentVolume is exchanged is bound again',
    file: 'src/cli/convert.ts',
    killer: 'src/cli/nfs-persistent-volume.test.ts',
    text: ', uid: z.string().optional()',
    replacement: '',
  },
];
