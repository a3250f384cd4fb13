import { ebs } from './clouds.ts';
import { nodeKilledTests } from './suite/node-killed.ts';

nodeKilledTests(ebs);
