import assert from 'node:assert/strict';
import { once } from 'node:events';
import { closeSync, mkdirSync, openSync, writeFileSync, writeSync } from 'node:fs';
import { describe, test } from 'node:test';
import { encode, methodsOf } from '../../src/csi/contract.ts';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { lockExclusively } from '../../src/kernel/process/lock.ts';
import { CallError } from '../support/client.ts';
import { DriverProcess } from '../support/driver.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import { WatchedDirectory } from '../support/watched-directory.ts';
import { framed, openSession, startRequest } from './wire-http2.ts';

/** What the driver has said since it was told to stop, but for its calls. */
function lastWords(driver: DriverProcess): unknown[] {
  const lines = driver.log().filter(({ rpc }) => rpc === undefined);
  return lines.slice(lines.findIndex(({ msg }) => msg === 'stopping')).map(({ msg }) => msg);
}

describe('SIGTERM', () => {
  test('while a pool waits for its lock: no call waits on, and the kubelet never hears of the driver', async () => {
    using scratch = new Scratch('stop');
    const free = `  free: { directory: ${scratch.join('free')} }\n`;
    const config = `pools:\n  held: { directory: ${scratch.join('held')} }\n${free}defaultPool: free\nlockTimeoutSeconds: 3600\n`;
    await (await DriverProcess.start(scratch, { config })).stop();
    await using _lock = await lockExclusively(new DiskQueue('test', 1), scratch.join('held'));
    mkdirSync(scratch.join('registry'));
    using registry = new WatchedDirectory(scratch.join('registry'));
    const registrationSocket = scratch.join('registry/holdfast-reg.sock');
    const environment = { HOLDFAST_REGISTRATION_SOCKET: registrationSocket };
    const options = { config, environment, socketPath: scratch.join('second.sock') };
    await using driver = DriverProcess.spawn(scratch, options);
    await driver.logged('pool opened');
    using client = driver.connect();
    const waiting = client.controller.ListVolumes({});
    assert.deepEqual(await client.identity.Probe({}), { ready: { value: false } });
    driver.signal('SIGTERM');
    await assert.rejects(waiting, (error) => error instanceof CallError && error.code === 'UNAVAILABLE');
    assert.deepEqual(await driver.ended(), { code: 0, signal: null });
    assert.deepEqual(lastWords(driver), ['stopping', 'stopped']);
    // What came and went again would have been told by now, before this.
    writeFileSync(scratch.join('registry/last'), '');
    await eventually(() => assert.ok(registry.names.includes('last')));
    assert.ok(!registry.names.some((name) => name.includes('holdfast-reg')));
    assert.ok(!driver.log().some(({ msg }) => msg === 'listening for the kubelet'));
  });

  test('ends a stream whose client does not read it, and waits neither for the call nor for the client', async () => {
    using scratch = new Scratch('stop');
    const config = `pools:\n  default: { directory: ${scratch.join('pool')} }\n`;
    await using driver = await DriverProcess.start(scratch, { config });
    using client = driver.connect();
    const { volume } = await client.controller.CreateVolume({
      name: 'v',
      capacity_range: { required_bytes: 128n << 20n },
      volume_capabilities: [{ block: {}, access_mode: { mode: 'SINGLE_NODE_WRITER' } }],
    });
    const source_volume_id = volume?.volume_id ?? '';
    const { snapshot } = await client.controller.CreateSnapshot({ source_volume_id, name: 's' });
    const snapshot_id = snapshot?.snapshot_id ?? '';
    scatter(scratch.join('pool', 'snapshots', snapshot_id, 'data'), 10_000);

    const method = methodsOf('csi.v1.SnapshotMetadata').find(({ name }) => name === 'GetMetadataAllocated');
    assert.ok(method);
    const session = openSession(driver.socketPath);
    const stream = startRequest(session, { path: method.path, body: Buffer.alloc(0) });
    stream.on('error', () => undefined);
    stream.end(framed(encode(method.requestType, { snapshot_id })));
    await once(stream, 'response');
    driver.signal('SIGTERM');
    const ending = await driver.ended();
    session.destroy();
    assert.deepEqual(ending, { code: 0, signal: null });
    assert.deepEqual(lastWords(driver), ['stopping', 'stopped']);
    const line = driver.log().find(({ rpc }) => rpc === 'GetMetadataAllocated');
    assert.equal(line?.['code'], 'UNAVAILABLE');
  });
});

/** Writes blocks with a hole after each, so that there is more to tell of them than a client takes without reading. */
function scatter(path: string, blocks: number): void {
  const fd = openSync(path, 'r+');
  const block = Buffer.alloc(4096, 1);
  for (let index = 0; index < blocks; index++) writeSync(fd, block, 0, block.length, index * 2 * block.length);
  closeSync(fd);
}
