import { describeKilled } from '../nfs/killed.ts';

describeKilled('NFS', 'kernel');
