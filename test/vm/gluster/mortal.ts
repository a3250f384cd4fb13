import { liveMortally } from '../network-disk/mortal-life.ts';
import { openGlusterKind } from './gluster-node.ts';

const [, , path = ''] = process.argv;
await liveMortally(await openGlusterKind({ join: (...names) => [path, ...names].join('/') }), '');
