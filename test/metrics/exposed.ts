import assert from 'node:assert/strict';
import { DriverProcess } from '../support/driver.ts';
import { TestVolume } from '../support/life.ts';
import { ask, monitored } from '../support/monitoring.ts';
import { Scratch } from '../support/scratch.ts';

/** What a real driver exposes in the middle of a volume's life: every metric has a sample by then. */
export async function exposeEverything(): Promise<string> {
  using scratch = new Scratch('exposed');
  await using driver = await DriverProcess.start(scratch, { environment: monitored });
  using client = driver.connect();
  const volume = new TestVolume(scratch, 'v');
  const id = await volume.bringUp(client);
  await client.controller.CreateSnapshot({ source_volume_id: id, name: 's' });
  const { status, text } = await ask(driver, '/metrics');
  assert.equal(status, 200);
  await volume.tearDown(client, id);
  return text;
}
