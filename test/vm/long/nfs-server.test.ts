import { describeServerGone } from '../nfs/server-gone.ts';

describeServerGone('an NFS server', 'kernel');
