/**
 * Runs in the virtual machine, until it is killed or all have come: owners of the volumes of one pool, one after another.
 * What it has done it tells line by line.
 * node driver.ts KIND DEVICE DATA discard|zero|none FIRST COUNT
 */
import type { WipePolicy } from '../../../src/volume/wipe-policy.ts';
import { SeededRandom } from '../../crash/seeded-random.ts';
import { Owners } from './owners.ts';
import { placeOf } from './place.ts';

const [, , kind = '', device = '', dataDirectory = '', wipe = '', first = '', count = ''] = process.argv;
const place = placeOf(kind, device);
const pool = await place.open(dataDirectory, wipe as WipePolicy);
// `none` is none for all of them: then they find what was there, or this test shows nothing.
const chosen = wipe === 'none' ? { ...place, wipes: [] } : place;
const owners = new Owners(pool, chosen, new SeededRandom(Number(first)), (words) => console.log(words));
await owners.leave();
for (let owner = Number(first); owner < Number(first) + Number(count); owner++) await owners.come(owner);
await owners.leave();
await pool.close();
