import { setTimeout as delay } from 'node:timers/promises';
import { connectDriver } from '../support/client.ts';
import { type DriverPlaces, DriverProcess } from './driver-process.ts';
import { median } from './statistics.ts';

export interface StartupResult {
  readonly starts: number;
  /** From the start of the process to the answer of the first Probe: the median. */
  readonly firstProbeMs: number;
  /** To the first Probe that says ready: all pools are open. */
  readonly readyMs: number;
}

/** Starts the driver again and again, on pools that exist. */
export async function measureStartup(
  places: DriverPlaces,
  bundle: string,
  starts: number,
  signal: AbortSignal,
): Promise<StartupResult> {
  const firstProbeMs: number[] = [];
  const readyMs: number[] = [];
  for (let start = 0; start < starts; start++) {
    signal.throwIfAborted();
    await using driver = new DriverProcess(places, bundle);
    const times = await awaitReady(driver, places);
    firstProbeMs.push(times.firstProbeMs);
    readyMs.push(times.readyMs);
  }
  return { starts, firstProbeMs: median(firstProbeMs), readyMs: median(readyMs) };
}

/** Probes from the first moment on until the driver is ready. */
export async function awaitReady(
  driver: DriverProcess,
  places: DriverPlaces,
): Promise<{ readonly firstProbeMs: number; readonly readyMs: number }> {
  await driver.listening();
  using client = connectDriver(places.socket);
  let firstProbeMs: number | undefined;
  for (;;) {
    const { ready } = await client.identity.Probe({});
    const elapsedMs = performance.now() - driver.startedMs;
    firstProbeMs ??= elapsedMs;
    if (ready?.value === true) return { firstProbeMs, readyMs: elapsedMs };
    await delay(2);
  }
}
