/**
 * A writer that never rests: the same counter into each of the files that it is given, in their order, again and again.
 * Whatever is cut at one instant holds counters that never rise from one file to the next, and differ by one at most.
 */
import { openSync, writeSync } from 'node:fs';

const files = process.argv.slice(2).map((path) => openSync(path, 'r+'));
const counter = Buffer.alloc(8);
for (let count = 1n; ; count++) {
  counter.writeBigUInt64LE(count);
  for (const file of files) writeSync(file, counter, 0, counter.length, 0);
  if (count === 1n) process.stdout.write('writing\n');
}
