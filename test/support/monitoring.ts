import assert from 'node:assert/strict';
import type { DriverProcess } from './driver.ts';
import { Exposition } from './exposition.ts';

/** For `DriverOptions.environment`: any free port, for this machine alone. */
export const monitored = { HOLDFAST_HTTP_ADDRESS: '127.0.0.1:0' };

/** What a driver's HTTP server answered. */
export interface HttpAnswer {
  readonly status: number;
  readonly text: string;
}

/** Asks a driver that was started with `monitored`, at the port that its log names. */
export async function ask(driver: DriverProcess, path: string, method = 'GET'): Promise<HttpAnswer> {
  const port = await monitoringPort(driver);
  const response = await fetch(`http://127.0.0.1:${port}${path}`, { method, headers: { connection: 'close' } });
  return { status: response.status, text: await response.text() };
}

/** The port of a driver that was started with `monitored`. */
export async function monitoringPort(driver: DriverProcess): Promise<number> {
  await driver.logged('listening for monitoring');
  return Number(driver.log().findLast(({ msg }) => msg === 'listening for monitoring')?.['port']);
}

/** Its metrics, parsed. */
export async function scrape(driver: DriverProcess): Promise<Exposition> {
  const { status, text } = await ask(driver, '/metrics');
  assert.equal(status, 200, text);
  return new Exposition(text);
}
