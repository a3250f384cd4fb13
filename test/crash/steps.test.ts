import { describeKills } from './kills.ts';

describeKills('T01 T02 T04 T05: kill -9 at every state of every operation', 'everything');
