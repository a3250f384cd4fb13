import { ebs } from './clouds.ts';
import { killedTests } from './suite/killed.ts';

killedTests(ebs);
