import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';

/** Only a failure takes this long. */
const patienceMs = 60_000;
const pauseMs = 10;

/**
 * Mounts the filesystem in an image file, and unmounts it when the work is done. A process of another test that just
 * then takes a mount namespace of its own keeps the filesystem mounted there: what is in the image is whole only when
 * its loop device is gone.
 */
export function whileMounted<T>(
  image: string,
  directory: string,
  work: () => T,
  mountOptions: readonly string[] = [],
): T {
  mkdirSync(directory, { recursive: true });
  execFileSync('mount', ['-o', ['loop', ...mountOptions].join(','), image, directory]);
  try {
    return work();
  } finally {
    execFileSync('umount', [directory]);
    untilDetached(image);
  }
}

function untilDetached(image: string): void {
  const giveUpAt = performance.now() + patienceMs;
  for (;;) {
    const devices = execFileSync('losetup', ['--associated', image], { encoding: 'utf8' });
    if (devices === '') return;
    if (performance.now() >= giveUpAt) throw new Error(`${image} is unmounted, and still in use: ${devices}`);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, pauseMs);
  }
}
