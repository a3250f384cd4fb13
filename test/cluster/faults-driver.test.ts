import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { clusterTest } from './harness/cluster-test.ts';
import { cluster } from './harness/current.ts';
import { images } from './harness/images.ts';
import { claim, pod } from './harness/objects.ts';

clusterTest('the driver is killed again and again while 20 pods start and stop', async (namespace) => {
  const names = Array.from({ length: 20 }, (_, index) => `user-${index}`);
  const kills = await whileKilled(async () => {
    await namespace.apply(
      ...names.map((name) => claim(name, { size: '64Mi' })),
      ...names.map((name) => pod(name, { volumes: { data: name }, script: 'hostname > /data/file' })),
    );
    await namespace.running(...names);
  });
  const moreKills = await whileKilled(() => namespace.remove(...names.map((name) => `pod/${name}`)));
  console.log(`faults: ${kills} kills of the driver while 20 pods started, ${moreKills} while they stopped`);
  await namespace.apply(...names.slice(0, 3).map((name) => pod(name, { volumes: { data: name } })));
  await namespace.running(...names.slice(0, 3));
  for (const name of names.slice(0, 3)) assert.equal(await namespace.exec(name, 'cat /data/file'), name);
});

/** So long is the driver killed at most: the kubelet's pauses grow to two minutes, and it might never meet a living one. */
const killingMs = 60_000;

/** Kills the driver each time that it has come up and done something. @returns how many times */
async function whileKilled(work: () => Promise<void>): Promise<number> {
  const finished = new AbortController();
  const killing = killAgainAndAgain(AbortSignal.any([finished.signal, AbortSignal.timeout(killingMs)]));
  try {
    await work();
  } finally {
    finished.abort();
  }
  return killing;
}

async function killAgainAndAgain(signal: AbortSignal): Promise<number> {
  const { driver } = cluster();
  let kills = 0;
  while (!signal.aborted) {
    await delay(3000, undefined, { signal }).catch(() => undefined);
    await driver.kill();
    kills += 1;
    await driver.ready();
  }
  return kills;
}

clusterTest('the driver is upgraded under a pod whose I/O goes on', async (namespace) => {
  const { driver, runtime } = cluster();
  const next = images.driver.replace(':test', ':next');
  await runtime.ctr(['images', 'tag', images.driver, next]);
  await namespace.apply(
    claim('data'),
    // A line for each write that has reached the disk, with the time since boot.
    pod('user', {
      volumes: { data: 'data' },
      script:
        'while :; do echo x > /data/x; sync /data/x; cut -d" " -f1 /proc/uptime >> /data/times; usleep 20000; done &',
    }),
  );
  await namespace.running('user');
  const before = (await driver.process()).pid;
  await driver.upgrade(next);
  assert.notEqual((await driver.process()).pid, before);
  const times = (await namespace.exec('user', 'cat /data/times')).split('\n').map(Number);
  const pauses = times.slice(1).map((time, index) => time - (times[index] ?? 0));
  console.log(`upgrade: ${times.length} writes, the longest pause ${Math.max(...pauses).toFixed(2)} s`);
  assert.ok(times.length > 20);
  await driver.upgrade(images.driver);
  await runtime.ctr(['images', 'remove', next]);
});
