import assert from 'node:assert/strict';
import type { DriverClient } from '../support/client.ts';
import type { DriverProcess } from '../support/driver.ts';

/** The driver still answers, with its pool, to a client that has been connected all the time. */
export async function assertAnswers(driver: DriverProcess, client: DriverClient): Promise<void> {
  assert.equal((await client.identity.Probe({})).ready?.value, true);
  assert.ok(!driver.hasEnded);
}
