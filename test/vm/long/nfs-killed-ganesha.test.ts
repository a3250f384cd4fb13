import { describeKilled } from '../nfs/killed.ts';

describeKilled('nfs-ganesha', 'ganesha');
