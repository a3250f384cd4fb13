import assert from 'node:assert/strict';
import type { Namespace } from './namespace.ts';
import { waitFor } from './waiting.ts';

/** For a pod with a volume at /data: a number for each write, which is counted when it has reached the disk. */
export const writeNumbers = `
n=0
while :; do n=$((n + 1)); echo $n >> /data/numbers; sync /data/numbers; usleep 20000; done &`;

/** The pod writes more numbers. */
export async function writesGoOn(namespace: Namespace, pod: string): Promise<void> {
  const written = async () => Number(await namespace.exec(pod, 'wc -l < /data/numbers'));
  const before = await written();
  await waitFor(`${pod} to write`, async () => assert.ok((await written()) > before + 10));
}

/** No number is missing, in whichever pod has the volume now. */
export async function assertAllNumbers(namespace: Namespace, pod: string): Promise<void> {
  const numbers = (await namespace.exec(pod, 'cat /data/numbers')).split('\n').map(Number);
  assert.deepEqual(
    numbers,
    numbers.map((_, index) => index + 1),
  );
}
