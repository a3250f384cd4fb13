import assert from 'node:assert/strict';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { describe, test } from 'node:test';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { Metrics } from '../../src/metrics/metrics.ts';
import { Pools } from '../../src/pool/pools.ts';
import { CallError } from '../support/client.ts';
import { DriverProcess } from '../support/driver.ts';
import { eventually } from '../support/eventually.ts';
import { Exposition } from '../support/exposition.ts';
import { openTestPool, volumeSpec } from '../support/image-pool.ts';
import { TestVolume } from '../support/life.ts';
import { ask, monitored, scrape } from '../support/monitoring.ts';
import { Scratch } from '../support/scratch.ts';

const mebibyte = 1 << 20;
const claim = {
  'csi.storage.k8s.io/pvc/namespace': 'shop',
  'csi.storage.k8s.io/pvc/name': 'data-0',
  'csi.storage.k8s.io/pv/name': 'pvc-1',
};
const undeleteForAnHour = 'pools:\n  default:\n    kind: image\n    undelete: 1h\n';

describe('metrics', () => {
  test('a volume, from its creation into the trash, with its claim', async () => {
    using scratch = new Scratch('metrics');
    await using driver = await DriverProcess.start(scratch, { environment: monitored, config: undeleteForAnHour });
    using client = driver.connect();
    const volume = new TestVolume(scratch, 'a "name"\\\nof two lines');
    const volume_id = await volume.create(client, claim);
    const before = await scrape(driver);
    assert.deepEqual(before.find('holdfast_volume_info')[0]?.labels, {
      volume_id,
      pool: 'default',
      name: volume.name,
      claim_namespace: 'shop',
      claim_name: 'data-0',
      persistent_volume: 'pvc-1',
      filesystem: 'ext4',
    });
    assert.equal(before.value('holdfast_volume_size_bytes', { volume_id }), 64 * mebibyte);
    assert.equal(before.value('holdfast_volume_devices', { volume_id }), 0);
    assert.equal(before.value('holdfast_pool_volumes', { pool: 'default' }), 1);
    assert.equal(before.value('holdfast_pool_provisioned_bytes'), 64 * mebibyte);
    const used = before.value('holdfast_volume_used_bytes', { volume_id });
    assert.ok(used > 0 && used < 16 * mebibyte, `${used}`);

    await volume.stage(client, volume_id);
    await volume.publish(client, volume_id);
    await client.controller.CreateSnapshot({ source_volume_id: volume_id, name: 's' });
    const inUse = await scrape(driver);
    assert.equal(inUse.value('holdfast_volume_devices', { volume_id }), 1);
    assert.equal(inUse.value('holdfast_pool_devices'), 1);
    assert.equal(inUse.value('holdfast_pool_snapshots'), 1);
    assert.equal(inUse.value('holdfast_freeze_duration_seconds_count', { pool: 'default' }), 1);
    assert.ok(inUse.value('holdfast_freeze_duration_seconds_sum') > 0);

    await volume.tearDown(client, volume_id);
    const after = await scrape(driver);
    assert.deepEqual(after.find('holdfast_volume_info'), []);
    assert.equal(after.value('holdfast_pool_trash_volumes'), 1);
    assert.ok(after.value('holdfast_pool_trash_bytes') > 0);
    assert.equal(after.value('holdfast_pool_devices'), 0);
  });

  test('calls, by RPC and code', async () => {
    using scratch = new Scratch('metrics');
    await using driver = await DriverProcess.start(scratch, { environment: monitored });
    using client = driver.connect();
    const [rpc, code] = ['DeleteVolume', 'INVALID_ARGUMENT'];
    const refused = client.controller.DeleteVolume({ volume_id: '' });
    await assert.rejects(refused, (error) => error instanceof CallError && error.code === code);
    await client.controller.DeleteVolume({ volume_id: 'unknown' });
    await eventually(async () => {
      const seen = await scrape(driver);
      assert.equal(seen.value('holdfast_csi_calls_total', { rpc, code }), 1);
      assert.equal(seen.value('holdfast_csi_calls_total', { rpc, code: 'OK' }), 1);
      assert.equal(seen.value('holdfast_csi_call_duration_seconds_count', { rpc }), 2);
      assert.equal(seen.value('holdfast_csi_calls_in_flight', { rpc }), 0);
      assert.equal(seen.value('holdfast_csi_oldest_call_seconds'), 0);
    });
  });

  test('what the start finds half done is counted', async () => {
    using scratch = new Scratch('metrics');
    const environment = { HOLDFAST_TEST_CRASH_AT: 'before create/commit' };
    await using first = await DriverProcess.start(scratch, { environment });
    using client = first.connect();
    await assert.rejects(new TestVolume(scratch, 'v').create(client));
    await first.ended();
    await using driver = await DriverProcess.start(scratch, { environment: monitored });
    const seen = await scrape(driver);
    assert.equal(seen.value('holdfast_reconciled_total', { pool: 'default', what: 'draft_or_removed' }), 1);
    assert.equal(seen.value('holdfast_reconciled_total', { pool: 'default', what: 'device' }), 0);
  });

  test('a pool that could not be opened is told of, and does without figures', async () => {
    using scratch = new Scratch('metrics');
    const broken = `  broken:\n    kind: image\n    directory: ${scratch.join('missing', 'pool')}\n`;
    const works = `  default:\n    kind: image\n    directory: ${scratch.join('pool')}\n`;
    const config = `pools:\n${broken}${works}`;
    await using driver = await DriverProcess.start(scratch, { config, environment: monitored });
    const seen = await scrape(driver);
    assert.equal(seen.value('holdfast_pool_state', { pool: 'broken', state: 'failed' }), 1);
    assert.equal(seen.value('holdfast_pool_state', { pool: 'default', state: 'open' }), 1);
    assert.equal(seen.value('holdfast_pool_measured', { pool: 'broken' }), 0);
    assert.deepEqual(seen.find('holdfast_pool_total_bytes', { pool: 'broken' }), []);
  });

  test('a disk that hangs delays no scrape for long, and costs no other pool its figures', async () => {
    using scratch = new Scratch('metrics');
    const location = (name: string) => ({ type: 'directory', path: scratch.join(name) }) as const;
    const hanging = new DiskQueue('hanging', 2);
    const pools = new Pools(
      new Map([
        ['sick', () => openTestPool(scratch, { name: 'sick', location: location('sick'), queue: hanging })],
        ['well', () => openTestPool(scratch, { name: 'well', location: location('well') })],
      ]),
      'well',
    );
    await pools.open();
    await pools.get('sick').create(volumeSpec('v'));
    const identity = { version: '0', driver: 'd', node_id: 'n' };
    const metrics = new Metrics({ pools, kubeletQueue: new DiskQueue('kubelet', 1), identity });
    const read = async () => new Exposition((await metrics.page()).body);
    assert.equal((await read()).value('holdfast_pool_measured', { pool: 'sick' }), 1);

    // What a disk that does not answer does: it keeps every place of its queue.
    let mend = () => {};
    const mended = new Promise<void>((resolve) => {
      mend = resolve;
    });
    const hung = [hanging.run(() => mended), hanging.run(() => mended)];
    for (let scrapes = 0; scrapes < 3; scrapes++) {
      const seen = await read();
      assert.equal(seen.value('holdfast_pool_measured', { pool: 'sick' }), 0);
      assert.deepEqual(seen.find('holdfast_pool_used_bytes', { pool: 'sick' }), []);
      assert.deepEqual(seen.find('holdfast_volume_info', { pool: 'sick' }), []);
      assert.equal(seen.value('holdfast_pool_measured', { pool: 'well' }), 1);
      assert.equal(seen.value('holdfast_disk_queue_running', { queue: 'pool sick' }), 2);
    }
    // Scrapes that gave up have not queued behind the disk.
    const waiting = hanging.waiting;
    assert.ok(waiting <= 3, `${waiting}`);
    mend();
    await Promise.all(hung);
    await eventually(async () => assert.equal((await read()).value('holdfast_pool_measured', { pool: 'sick' }), 1));
    await pools.close();
  });

  test('many who ask at once get the same whole answer', async () => {
    using scratch = new Scratch('metrics');
    await using driver = await DriverProcess.start(scratch, { environment: monitored });
    using client = driver.connect();
    await new TestVolume(scratch, 'v').create(client);
    const answers = await Promise.all(Array.from({ length: 8 }, () => ask(driver, '/metrics')));
    for (const { status, text } of answers) {
      assert.equal(status, 200);
      assert.equal(new Exposition(text).find('holdfast_volume_info').length, 1);
    }
  });

  test('nothing listens on a port unless it is told to', async () => {
    using scratch = new Scratch('metrics');
    await using driver = await DriverProcess.start(scratch);
    const directory = `/proc/${driver.pid}/fd`;
    const open = readdirSync(directory).map((name) => readlinkSync(`${directory}/${name}`));
    const tables = ['tcp', 'tcp6'].map((name) => readFileSync(`/proc/${driver.pid}/net/${name}`, 'utf8'));
    const inodes = tables.flatMap((table) => table.split('\n').map((line) => line.trim().split(/\s+/)[9] ?? ''));
    for (const inode of inodes) assert.equal(open.includes(`socket:[${inode}]`), false);
  });
});
