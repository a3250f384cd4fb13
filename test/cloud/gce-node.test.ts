import { gce } from './clouds.ts';
import { nodeTests } from './suite/node.ts';

/* Persistent disks on a node. */

nodeTests(gce);
