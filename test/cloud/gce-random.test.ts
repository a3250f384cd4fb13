import { gce } from './clouds.ts';
import { randomTest } from './suite/random.ts';

randomTest(gce);
