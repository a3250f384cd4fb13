import { setTimeout as delay } from 'node:timers/promises';
import { connectCaller } from './caller.ts';
import { Crowd } from './crowd.ts';
import { type DriverPlaces, DriverProcess, type Footprint } from './driver-process.ts';
import { heapArguments, liveHeapBytes } from './heap.ts';
import { manyCallers } from './lifecycles.ts';
import { PeakWatch } from './peak.ts';
import { awaitReady } from './startup.ts';

export interface MemoryResult {
  readonly lives: number;
  readonly idle: Footprint;
  /** After a tenth of the lives: what is made once and kept is there. */
  readonly warm: Footprint;
  readonly after: Footprint;
  /** The most there was at a time while sixteen callers were at work. */
  readonly peakAnonymousBytes: number;
  /** What is alive on the heap after a collection. */
  readonly liveHeapBytes: { readonly idle: number; readonly after: number };
}

/** Until timers have run and what was freed has been given back. */
const settleMs = 2000;

/** A fresh driver's footprint before, early in, during, and after many lives with sixteen callers. */
export async function measureMemory(
  places: DriverPlaces,
  bundle: string,
  lives: number,
  signal: AbortSignal,
): Promise<MemoryResult> {
  const idleHeapBytes = await measureIdleHeap(places, bundle);
  await using driver = new DriverProcess(places, bundle, heapArguments);
  await awaitReady(driver, places);
  const settled = async () => {
    await delay(settleMs, undefined, { signal });
    return driver.footprint();
  };
  const idle = await settled();
  using caller = connectCaller(places.socket);
  const crowd = new Crowd(caller, places, signal);
  using peak = new PeakWatch(driver);
  const warmLives = Math.ceil(lives / 10);
  await crowd.run('directory', warmLives, manyCallers);
  const warm = await settled();
  await crowd.run('directory', lives - warmLives, manyCallers);
  const after = await settled();
  const peakAnonymousBytes = peak.anonymousBytes;
  const liveHeap = { idle: idleHeapBytes, after: await liveHeapBytes(driver) };
  return { lives, idle, warm, after, peakAnonymousBytes, liveHeapBytes: liveHeap };
}

/** In a driver of its own: asking for the heap changes a process. */
async function measureIdleHeap(places: DriverPlaces, bundle: string): Promise<number> {
  await using driver = new DriverProcess(places, bundle, heapArguments);
  await awaitReady(driver, places);
  return await liveHeapBytes(driver);
}
