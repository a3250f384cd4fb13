import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { CallError, type DriverClient } from '../support/client.ts';
import { DriverProcess } from '../support/driver.ts';
import { eventually } from '../support/eventually.ts';
import { inject } from '../support/injection.ts';
import { mountWith } from '../support/life.ts';
import { ask, monitored } from '../support/monitoring.ts';
import { Scratch } from '../support/scratch.ts';

/** Some of what a sick disk answers, or the filesystem on it; src/kernel/block/disk-fault.ts has all. */
const answers = ['EIO', 'ENODEV', 'ENOLINK', 'EREMOTEIO', 'ETIMEDOUT', 'EUCLEAN', 'ESHUTDOWN', 'ESTALE', 'ENOTCONN'];

function create(client: DriverClient, name: string, pool: string) {
  return client.controller.CreateVolume({
    name,
    capacity_range: { required_bytes: 64n << 20n },
    volume_capabilities: [mountWith('ext4')],
    parameters: { pool },
  });
}

describe('an error of the disk of a pool', () => {
  test('T03: whatever its number, the call is to be repeated, and the pool is in quarantine until the disk is well', async (t) => {
    using scratch = new Scratch('disk-errors');
    const pool = scratch.join('sick');
    const sick = `  sick: { directory: ${pool}, sickAfter: 1s }\n`;
    const config = `pools:\n${sick}  well: { directory: ${scratch.join('well')} }\ndefaultPool: well\n`;
    await using driver = await DriverProcess.start(scratch, { config, environment: monitored });
    using client = driver.connect();
    for (const error of answers) {
      await t.test(error, async () => {
        {
          await using _sick = await inject(driver.pid, `fsync:error=${error}`, [`${pool}/volumes`, `${pool}/health`]);
          const refusal = await create(client, error, 'sick').catch((reason: unknown) => reason);
          assert.ok(refusal instanceof CallError, `${refusal}`);
          assert.equal(refusal.code, 'UNAVAILABLE', refusal.message);
          await eventually(async () => {
            assert.match((await ask(driver, '/readyz')).text, new RegExp(`sick: quarantined: .*\\(${error}\\)`));
          });
          await create(client, `${error} beside it`, 'well');
        }
        await eventually(async () => void (await create(client, error, 'sick')), 30_000);
      });
    }
  });
});
