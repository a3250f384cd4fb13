import { gce } from './clouds.ts';
import { poolTests } from './suite/pool.ts';

/* A pool of persistent disks, on a fake of Compute Engine. */

poolTests(gce);
