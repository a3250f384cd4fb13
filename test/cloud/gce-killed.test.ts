import { gce } from './clouds.ts';
import { killedTests } from './suite/killed.ts';

killedTests(gce);
