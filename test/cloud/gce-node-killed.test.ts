import { gce } from './clouds.ts';
import { nodeKilledTests } from './suite/node-killed.ts';

nodeKilledTests(gce);
