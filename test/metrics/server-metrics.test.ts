import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AnsweringNfs } from '../support/answering-nfs.ts';
import { DriverProcess } from '../support/driver.ts';
import { monitored, scrape } from '../support/monitoring.ts';
import { Scratch } from '../support/scratch.ts';

test('a server of volumes in use is up while it answers; then its last answer is known', async () => {
  using scratch = new Scratch('servers');
  using server = await AnsweringNfs.start();
  server.noteVolume(scratch);
  await using driver = await DriverProcess.start(scratch, { environment: { ...monitored, HOLDFAST_SIDE: 'node' } });
  const labels = { kind: 'nfs', server: '127.0.0.1' };
  const up = await scrape(driver);
  assert.equal(up.value('holdfast_server_up', labels), 1);
  assert.equal(up.value('holdfast_server_volumes', labels), 1);
  const answeredAt = up.value('holdfast_server_last_answer_timestamp_seconds', labels);
  assert.ok(Math.abs(answeredAt - Date.now() / 1000) < 600);
  assert.equal(up.value('holdfast_disk_queue_running', { queue: 'server nfs 127.0.0.1' }), 0);
  server[Symbol.dispose]();
  let down = await scrape(driver);
  // An answer counts for a second.
  while (down.value('holdfast_server_up', labels) !== 0) down = await scrape(driver);
  assert.ok(down.value('holdfast_server_last_answer_timestamp_seconds', labels) >= answeredAt);
  assert.equal(down.value('holdfast_server_volumes', labels), 1);
});
