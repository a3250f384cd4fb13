import { ebs } from './clouds.ts';
import { nodeTests } from './suite/node.ts';

/* EBS volumes on a node. */

nodeTests(ebs);
