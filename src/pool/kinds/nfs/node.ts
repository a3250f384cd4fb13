import { serverOf } from '../../../kernel/nfs/mount.ts';
import { askServer, isReached } from '../../../kernel/nfs/server.ts';
import { isNfs } from '../../../kernel/nfs/unmount.ts';
import { accessModes } from '../../../volume/capability.ts';
import { InvalidArgument } from '../../../volume/errors.ts';
import type { NodeKind } from '../../node-side.ts';
import { contextKeys, readNfsContext, sourceOf } from './context.ts';

const silentAfterMs = 2_000;

/** Volumes on NFS, as any node mounts them. */
export const nfsNodeKind: NodeKind = {
  name: 'nfs',
  traits: { detaching: 'automatic', accessModes },
  namingKeys: ['server', 'share'],
  keys: contextKeys,

  read(context, { access }) {
    readNfsContext(context);
    if (access === 'block') throw new InvalidArgument('A volume on NFS is a directory: it has no raw block device.');
    return { content: { type: 'directory' } };
  },

  shows({ context }, { mount }) {
    if (mount === undefined || !isNfs(mount)) return undefined;
    const source = sourceOf(readNfsContext(context));
    if (mount.source === source) return 'whole';
    const below = source.endsWith('/') ? source : `${source}/`;
    return mount.source.startsWith(below) ? 'part' : undefined;
  },

  serverOf: ({ context }) => readNfsContext(context).exported.host,

  async open(context) {
    const { NfsNodeSide } = await import('./node-side.ts');
    const { removeLeftExports } = await import('./attachment.ts');
    await removeLeftExports(context, context.server);
    return new NfsNodeSide(context);
  },

  async askServer({ context }) {
    const { exported, options } = readNfsContext(context);
    const answer = await askServer(serverOf(exported, options), silentAfterMs);
    return isReached(answer) ? undefined : answer.why;
  },

  async checkNode(queue) {
    const { checkNfsClient } = await import('./look.ts');
    return checkNfsClient(queue);
  },
};
