import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { describe, test } from 'node:test';
import { remountReadOnly } from '../support/disk.ts';
import { DriverProcess } from '../support/driver.ts';
import { eventually } from '../support/eventually.ts';
import { TestVolume } from '../support/life.ts';
import { ask, monitored } from '../support/monitoring.ts';
import { Scratch } from '../support/scratch.ts';

describe('health over HTTP', () => {
  test('a driver with its pools open lives and is ready', async () => {
    using scratch = new Scratch('health');
    await using driver = await DriverProcess.start(scratch, { environment: monitored });
    assert.deepEqual(await ask(driver, '/healthz'), { status: 200, text: 'The driver answers.\n' });
    assert.deepEqual(await ask(driver, '/readyz?verbose'), {
      status: 200,
      text: 'The driver is ready.\npool default: open\n',
    });
    assert.deepEqual(await ask(driver, '/healthz', 'HEAD'), { status: 200, text: '' });
    assert.equal((await ask(driver, '/healthz', 'POST')).status, 405);
    assert.equal((await ask(driver, '/healthz/../etc/passwd')).status, 404);
    assert.deepEqual(await driver.stop(), { code: 0, signal: null });
  });

  test('a driver that waits for a pool lives, but is not ready', async () => {
    using scratch = new Scratch('health');
    await using holder = await DriverProcess.start(scratch);
    const options = { environment: monitored, socketPath: scratch.join('second.sock') };
    await using driver = DriverProcess.spawn(scratch, options);
    await driver.listening();
    assert.equal((await ask(driver, '/healthz')).status, 200);
    assert.deepEqual(await ask(driver, '/readyz'), {
      status: 503,
      text: 'The driver is starting.\npool default: opening\n',
    });
    await holder.stop();
    await driver.ready();
    assert.equal((await ask(driver, '/readyz')).status, 200);
  });

  test('a driver without a pool that works lives, for no restart helps, and says why it is not ready', async () => {
    using scratch = new Scratch('health');
    const config = `pools:\n  default:\n    kind: image\n    directory: ${scratch.join('missing', 'pool')}\n`;
    await using driver = DriverProcess.spawn(scratch, { config, environment: monitored });
    await driver.logged('a pool could not be opened; the others work without it');
    const live = await ask(driver, '/healthz');
    assert.equal(live.status, 200);
    const ready = await ask(driver, '/readyz');
    assert.equal(ready.status, 503);
    for (const { text } of [live, ready]) assert.match(text, /missing does not exist. Is its disk mounted\?/);
  });

  test('one broken pool beside one that works: ready, and the text tells of both', async () => {
    using scratch = new Scratch('health');
    const broken = `  broken:\n    kind: image\n    directory: ${scratch.join('missing', 'pool')}\n`;
    const works = `  default:\n    kind: image\n    directory: ${scratch.join('pool')}\n`;
    const config = `pools:\n${broken}${works}`;
    await using driver = await DriverProcess.start(scratch, { config, environment: monitored });
    const { status, text } = await ask(driver, '/readyz');
    assert.equal(status, 200);
    assert.match(text, /^pool broken: failed: .*\npool default: open$/m);
  });

  test('the only pool in quarantine: not ready, until its disk is well; no restart helps, so it lives', async () => {
    using scratch = new Scratch('health');
    const disk = diskWithPool(scratch);
    const config = `pools:\n  default: { directory: ${disk}/pool, sickAfter: 2s }\n`;
    await using driver = await DriverProcess.start(scratch, { config, environment: monitored });
    using client = driver.connect();
    assert.equal((await ask(driver, '/readyz')).status, 200);
    await remountReadOnly(disk);
    await assert.rejects(new TestVolume(scratch, 'v').create(client));
    await driver.logged('a pool is in quarantine: its disk is sick; the others work without it');
    const { status, text } = await ask(driver, '/readyz');
    assert.equal(status, 503);
    assert.match(text, /^No pool can be used\.\npool default: quarantined: .*\(EROFS\)/);
    assert.equal((await ask(driver, '/healthz')).status, 200);
    execFileSync('mount', ['-o', 'remount,rw', disk]);
    await eventually(async () => assert.equal((await ask(driver, '/readyz')).status, 200));
  });

  test('one pool in quarantine beside one that works: ready, and the text tells of both', async () => {
    using scratch = new Scratch('health');
    const disk = diskWithPool(scratch);
    const sick = `  sick: { directory: ${disk}/pool, sickAfter: 2s }\n`;
    const config = `pools:\n${sick}  well: { directory: ${scratch.join('pool')} }\ndefaultPool: sick\n`;
    await using driver = await DriverProcess.start(scratch, { config, environment: monitored });
    using client = driver.connect();
    await remountReadOnly(disk);
    await assert.rejects(new TestVolume(scratch, 'v').create(client));
    await driver.logged('a pool is in quarantine: its disk is sick; the others work without it');
    const { status, text } = await ask(driver, '/readyz');
    assert.equal(status, 200);
    assert.match(text, /^The driver is ready\.\npool sick: quarantined: .*\npool well: open\n$/);
  });

  test('a driver whose socket is gone reaches nobody: it does not live', async () => {
    using scratch = new Scratch('health');
    await using driver = await DriverProcess.start(scratch, { environment: monitored });
    rmSync(driver.socketPath);
    const { status, text } = await ask(driver, '/healthz');
    assert.equal(status, 503);
    assert.match(text, /^The driver does not answer at .*csi\.sock: /);
    assert.equal((await ask(driver, '/readyz')).status, 503);
  });

  test('a port that is taken costs no volume', async () => {
    using scratch = new Scratch('health');
    const squatter = createServer().listen(0, '127.0.0.1');
    await once(squatter, 'listening');
    try {
      const address = squatter.address();
      const port = address !== null && typeof address === 'object' ? address.port : 0;
      const environment = { HOLDFAST_HTTP_ADDRESS: `127.0.0.1:${port}` };
      await using driver = await DriverProcess.start(scratch, { environment });
      await driver.logged('cannot serve metrics and health');
      using client = driver.connect();
      const volume = new TestVolume(scratch, 'v');
      await volume.tearDown(client, await volume.bringUp(client));
    } finally {
      squatter.close();
    }
  });
});

/** A filesystem of its own for a pool; it goes with the scratch directory. */
function diskWithPool(scratch: Scratch): string {
  const [image, directory] = [scratch.join('disk.img'), scratch.join('disk')];
  mkdirSync(directory);
  execFileSync('truncate', ['--size=1G', image]);
  execFileSync('mkfs.ext4', ['-q', image]);
  execFileSync('mount', ['-o', 'loop', image, directory]);
  return directory;
}
