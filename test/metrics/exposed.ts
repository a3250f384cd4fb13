import assert from 'node:assert/strict';
import { AnsweringNfs } from '../support/answering-nfs.ts';
import { DriverProcess } from '../support/driver.ts';
import { TestVolume } from '../support/life.ts';
import { ask, monitored } from '../support/monitoring.ts';
import { Scratch } from '../support/scratch.ts';

/** What real drivers expose in the middle of a volume's life: every metric has a sample by then. */
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
  return `${linesOf(text, false)}\n${linesOf(await exposeServers(), true)}\n`;
}

/** A driver with disks of its node uses no servers. */
async function exposeServers(): Promise<string> {
  using scratch = new Scratch('servers');
  using server = await AnsweringNfs.start();
  server.noteVolume(scratch);
  await using driver = await DriverProcess.start(scratch, { environment: { ...monitored, HOLDFAST_SIDE: 'node' } });
  return (await ask(driver, '/metrics')).text;
}

function linesOf(text: string, areOfServers: boolean): string {
  return text
    .split('\n')
    .filter((line) => line !== '' && line.includes('holdfast_server_') === areOfServers)
    .join('\n');
}
