import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { AnsweringNfs } from '../support/answering-nfs.ts';
import { DriverProcess } from '../support/driver.ts';
import { eventually } from '../support/eventually.ts';
import type { Exposition } from '../support/exposition.ts';
import { ask, monitored, scrape } from '../support/monitoring.ts';
import { Scratch } from '../support/scratch.ts';
import { alertNames } from './rules.ts';
import { sicknesses } from './sicknesses.ts';
import { Timeline } from './timeline.ts';

/*
 * The alerts, from what a real driver tells of real pools on disks of their own. What a test cannot have is the time: each
 * scrape stands for some minutes of Prometheus' memory. Each alert can be provoked so. Two things are not the driver's own
 * words: `up`, which Prometheus itself sets, to 0 when a scrape fails as it does here; and that a call which hangs is so
 * much older so many minutes later.
 */

/** Longer than any alert waits. */
const longMinutes = 40;
/** Longer than any alert looks back. */
const recoveryMinutes = 75;
const oldestCall = 'holdfast_csi_oldest_call_seconds';

const provoked = new Set<string>();

describe('alerts from real pools', () => {
  test('each pool raises its own and no other, one that is well none, and all end when their disks are well', async () => {
    using scratch = new Scratch('alerts');
    const pools = sicknesses(scratch);
    const all = Object.values(pools);
    const lines = Object.entries(pools).map(([name, { disk, settings }]) => {
      return `  ${name}: { directory: ${disk.pool}${settings} }`;
    });
    const config = ['pools:', ...lines, 'defaultPool: well', ''].join('\n');
    const timeline = new Timeline();

    {
      await using driver = await DriverProcess.start(scratch, { config, environment: monitored });
      using client = driver.connect();
      for (const each of all) await each.prepare(client);
      timeline.lasts(longMinutes, await scrape(driver));
      timeline.expect();
    }
    for (const each of all) each.strike();
    {
      await using driver = await DriverProcess.start(scratch, { config, environment: monitored });
      using client = driver.connect();
      await using mending = new AsyncDisposableStack();
      for (const each of all) {
        mending.defer(() => each.mend());
        await each.begin(client, driver);
      }
      await eventually(async () => {
        const seen = await scrape(driver);
        for (const each of all) each.assertSeen(seen);
      }, 60_000);
      for (let minutes = 0; minutes < longMinutes; minutes += 5) {
        for (const each of all) await each.goOn(client);
        timeline.lasts(5, await scrape(driver), { name: oldestCall, minutes });
      }
      const firing = all.flatMap((each) => each.firing);
      timeline.expect(...firing);
      for (const { alertname } of firing) provoked.add(alertname);
    }
    {
      await using driver = await DriverProcess.start(scratch, { config, environment: monitored });
      await eventually(async () =>
        assert.doesNotMatch((await ask(driver, '/readyz?verbose')).text, /^pool \w+: (?!open$)/m),
      );
      timeline.lasts(recoveryMinutes, await scrape(driver));
      timeline.expect();
    }
    assert.equal(timeline.differences(), '');
  });

  test('a driver that is killed again and again, then stays away', async () => {
    using scratch = new Scratch('alerts');
    const timeline = new Timeline();
    const starts = new Set<number>();
    while (starts.size < 5) {
      const seen = await scrapeOfOneLife(scratch);
      const startedAt = seen.value('process_start_time_seconds');
      // It has a resolution of a second: two starts in one are one to Prometheus.
      if (starts.has(startedAt)) continue;
      starts.add(startedAt);
      timeline.lasts(5, seen);
      if (starts.size === 4) timeline.expect();
    }
    const restarts = { alertname: 'HoldfastRestarts' };
    timeline.expect(restarts);
    timeline.lasts(15, undefined);
    const down = { alertname: 'HoldfastDown' };
    timeline.expect(restarts, down);
    timeline.lasts(recoveryMinutes, undefined);
    timeline.expect(down);
    timeline.isAway(recoveryMinutes);
    const absent = { alertname: 'HoldfastAbsent' };
    timeline.expect(absent);
    for (const { alertname } of [restarts, down, absent]) provoked.add(alertname);
    assert.equal(timeline.differences(), '');
  });

  test('a server that goes away', async () => {
    using scratch = new Scratch('alerts');
    using server = await AnsweringNfs.start();
    server.noteVolume(scratch);
    await using driver = await DriverProcess.start(scratch, { environment: { ...monitored, HOLDFAST_SIDE: 'node' } });
    const timeline = new Timeline();
    timeline.lasts(longMinutes, await scrape(driver));
    timeline.expect();
    server[Symbol.dispose]();
    let seen = await scrape(driver);
    // An answer counts for a second.
    while (seen.value('holdfast_server_up') === 1) seen = await scrape(driver);
    timeline.lasts(10, seen);
    const down = { alertname: 'HoldfastServerDown' };
    timeline.expect(down);
    provoked.add(down.alertname);
    assert.equal(timeline.differences(), '');
  });

  after(() => assert.deepEqual([...provoked].sort(), [...alertNames].sort(), 'an alert was never provoked'));
});

async function scrapeOfOneLife(scratch: Scratch): Promise<Exposition> {
  await using driver = await DriverProcess.start(scratch, { environment: monitored });
  const seen = await scrape(driver);
  await driver.kill();
  return seen;
}
