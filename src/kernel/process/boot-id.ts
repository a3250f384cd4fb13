import { readFileSync } from 'node:fs';

/** Another one for each boot of the machine (random(4)). Read from memory: waits for no disk. */
export function bootId(): string {
  return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
}
