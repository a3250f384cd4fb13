import { ebs } from './clouds.ts';
import { randomTest } from './suite/random.ts';

randomTest(ebs);
