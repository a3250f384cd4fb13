/**
 * Runs in the virtual machine: so many owners of volumes, each of whom reads all that it gets, and writes over it. Their driver
 * is killed now and then, mostly when it has answered that something is deleted.
 * node old-data-in-guest.ts lvm|thin|disk DEVICE OWNERS SEED
 */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { extname } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { SeededRandom } from '../../crash/seeded-random.ts';
import { blankDisk } from '../../support/disk-pool.ts';
import { lvm } from '../../support/lvm-pool.ts';
import { Scratch } from '../../support/scratch.ts';
import { volumeGroup } from './place.ts';

const [, , kind = '', device = '', ownerCount = '', seed = ''] = process.argv;
const driver = fileURLToPath(new URL(`driver${extname(import.meta.url)}`, import.meta.url));
const goal = Number(ownerCount);
const random = new SeededRandom(Number(seed));
using scratch = new Scratch('owners');

/** Nothing of anybody is on the disk. */
function begin(): void {
  // Of the kind before.
  spawnSync('lvm', ['vgremove', '--force', '--force', '--yes', volumeGroup]);
  blankDisk(device);
  if (kind !== 'disk') lvm('vgcreate', '--yes', volumeGroup, device);
}

const words = (data: string, wipe: string, first: number, count: number) => [
  driver,
  ...[kind, device, scratch.join(data), wipe, `${first}`, `${count}`],
];

interface Told {
  readonly clean: number;
  readonly copied: number;
  readonly grown: number;
  readonly killed: number;
}

/** One driver, that is killed when it has told so much, or not at all. @returns how many owners came */
async function run(first: number, count: number, isKilled: boolean): Promise<Told> {
  const wipe = random.pick(['discard', 'zero']);
  const child = spawn(process.execPath, words('data', wipe, first, count), { stdio: ['ignore', 'pipe', 'inherit'] });
  const exited = once(child, 'exit');
  const told = { clean: 0, copied: 0, grown: 0 };
  /** At the first line of this sort after so many owners. */
  const [fatal, after] = [random.pick(['deleted', 'deleted', 'purged', 'clean']), 3 + random.below(1 + goal / 25)];
  for await (const line of createInterface({ input: child.stdout })) {
    const [what = ''] = line.split(' ');
    if (what === 'clean' || what === 'copied' || what === 'grown') told[what]++;
    if (isKilled && what === fatal && told.clean >= after) child.kill('SIGKILL');
  }
  const [code, signal] = await exited;
  assert.ok(code === 0 || signal === 'SIGKILL', `the driver that began with owner ${first} ended with ${code}`);
  return { ...told, killed: signal === 'SIGKILL' ? 1 : 0 };
}

if (kind !== 'thin') {
  begin();
  const { status, stderr } = spawnSync(process.execPath, words('control', 'none', 1, 20), { encoding: 'utf8' });
  assert.notEqual(status, 0, 'nothing is wiped, and yet nobody finds old data');
  assert.match(stderr, /old data at byte [0-9]+: "owner [0-9]+\.+"/);
  console.log('with wipe: none old data is found');
}
begin();
const total = { clean: 0, copied: 0, grown: 0, killed: 0 };
let first = 1;
while (total.clean < goal) {
  const told = await run(first, goal - total.clean, random.chance(0.9));
  // An owner may have come of whom it could not tell any more.
  first += told.clean + 1;
  for (const name of ['clean', 'copied', 'grown', 'killed'] as const) total[name] += told[name];
  console.log(`${total.clean} of ${goal} owners`);
}
console.log(
  `${kind}: ${total.clean} owners, ${total.copied} copies and ${total.grown} grown ones found nobody's data; ${total.killed} kills`,
);
