/** Runs in the virtual machine: PersistentVolumes that name a namespace of the kernel's NVMe target. */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { readFileSync, readlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, before, beforeEach, describe, test } from 'node:test';
import { connectNvme, disconnectNvme, nvmeSubsystem } from '../../../src/kernel/block/nvme.ts';
import { DiskQueue } from '../../../src/kernel/call/disk-queue.ts';
import { nvmeTcpNodeKind } from '../../../src/pool/kinds/nvme-tcp/kind.ts';
import { ContextHarness } from '../../support/context-harness.ts';
import { eventually } from '../../support/eventually.ts';
import { blockCapability, mountCapability } from '../../support/node-volume.ts';
import { refused } from '../../support/refused.ts';
import {
  context,
  controllers,
  directory,
  endConnections,
  nothingLeft as nothingLeftOf,
  nqn,
  portals,
  target,
  uuid,
} from './guest.ts';

const [first, second] = [uuid, '22222222-2222-4222-8222-222222222222'];
const contextOf = (each: string) => ({ ...context, uuid: each, ctrlLossTmo: '5', reconnectDelay: '1' });

let harness: ContextHarness;

before(() => {
  target('make', directory);
  target('namespace', directory, '1', first, 'xfs');
  target('namespace', directory, '2', second, 'ext4');
});
beforeEach(async () => {
  harness = await ContextHarness.open([nvmeTcpNodeKind]);
});
afterEach(async () => {
  await harness[Symbol.asyncDispose]();
  await endConnections();
});

const nothingLeft = () => nothingLeftOf(harness);

describe('a namespace', () => {
  test('is connected while its volume is staged, and a subsystem as long as one of its volumes is', async () => {
    const one = harness.volume('one', mountCapability('SINGLE_NODE_WRITER', [], 'xfs'));
    const other = harness.volume('other', mountCapability('SINGLE_NODE_WRITER', [], 'ext4'));
    await one.up(contextOf(first));
    await other.up(contextOf(second));
    assert.equal(controllers().length, 1);
    writeFileSync(join(one.target, 'file'), 'data');
    await one.down();
    assert.equal(controllers().length, 1);
    assert.deepEqual(
      harness.notes().map(({ handle }) => handle),
      ['other'],
    );
    await other.stats();
    await other.down();
    await nothingLeft();
    await one.up(contextOf(first));
    assert.equal(readFileSync(join(one.target, 'file'), 'utf8'), 'data');
    await one.down();
    await nothingLeft();
  });

  test('is let go by a driver that was started since, also if it was not mounted any more', async () => {
    const volume = harness.volume('iqn-like:handle/1', mountCapability('SINGLE_NODE_WRITER', [], 'xfs'));
    await volume.up(contextOf(first));
    await harness.restart();
    await volume.stats();
    await volume.unpublish();
    await harness.stop();
    execFileSync('umount', [volume.staging]);
    await harness.start();
    await volume.unstage();
    await nothingLeft();
  });

  test('is a raw block device', async () => {
    const volume = harness.volume('raw', blockCapability());
    await volume.up(contextOf(second));
    await harness.restart();
    await volume.down();
    await nothingLeft();
  });

  test('grows when its target has grown it, and is told if that has not', async () => {
    const volume = harness.volume('grows', mountCapability('SINGLE_NODE_WRITER', [], 'xfs'));
    await volume.up(contextOf(first));
    await refused(volume.expand(1n << 30n), 'OUT_OF_RANGE', /grow it on the target first/);
    target('grow', directory, '1', '640M');
    assert.deepEqual(await volume.expand(640n << 20n), { capacity_bytes: 640n << 20n });
    const [{ total } = { total: 0n }] = (await volume.stats()).usage;
    assert.ok(total > 500n << 20n, `${total}`);
    await volume.down();
    await nothingLeft();
  });

  test('is refused if the target has none of that identity, and nothing stays connected', async () => {
    const volume = harness.volume('missing', mountCapability());
    const volume_context = contextOf('33333333-3333-4333-8333-333333333333');
    await refused(volume.stage({ volume_context }), 'NOT_FOUND', /no namespace with uuid 3{12}.*1{12}/);
    await nothingLeft();
  });

  test('is refused if its target refuses the host or does not know the subsystem', async () => {
    const volume = harness.volume('unknown', mountCapability());
    const volume_context = { ...contextOf(first), nqn: 'nqn.2026-01.dev.holdfast:nobody' };
    await refused(volume.stage({ volume_context }), 'UNAVAILABLE', /has no such subsystem: correct the nqn/);
    await nothingLeft();
  });

  test('is refused if nothing listens at its portals', async () => {
    const volume = harness.volume('away', mountCapability());
    const volume_context = { ...contextOf(first), portals: '127.0.0.1:4421,127.0.0.2' };
    await refused(volume.stage({ volume_context }), 'UNAVAILABLE', /127.0.0.1:4421 cannot be reached \(ECONNREFUSED\)/);
    await nothingLeft();
  });

  test('is used by one portal if the other is away', async () => {
    const volume = harness.volume('two portals', mountCapability('SINGLE_NODE_WRITER', [], 'xfs'));
    const volume_context = { ...contextOf(first), portals: '127.0.0.1:4421,127.0.0.1' };
    await volume.stage({ volume_context });
    await volume.unstage();
    await nothingLeft();
  });

  test('is used by all portals, and goes on as long as one of them is there', async () => {
    target('second-start');
    const volume = harness.volume('two paths', mountCapability('SINGLE_NODE_WRITER', [], 'xfs'));
    const volume_context = { ...contextOf(first), portals: `${portals},127.0.0.1:4422`, ctrlLossTmo: '600' };
    await volume.stage({ volume_context });
    await volume.publish({ volume_context });
    const path = join(volume.target, 'lines');
    const condition = async () => (await volume.stats()).volume_condition?.message;
    const isOneDown = async () =>
      assert.match(`${await condition()}`, /^1 of 2 paths to the target are down: nvme[0-9]+\.$/);
    assert.deepEqual(
      controllers().map(({ state }) => state),
      ['live', 'live'],
    );
    assert.equal(await condition(), 'The target is connected.');
    for (const [stop, start] of [
      ['stop', 'start'],
      ['second-stop', 'second-start'],
    ] as const) {
      target(stop);
      await eventually(isOneDown, 60_000);
      writeFileSync(path, `${stop}\n`, { flag: 'a', flush: true });
      target(start);
      await eventually(async () => assert.equal(await condition(), 'The target is connected.'), 60_000);
    }
    target('second-stop');
    await eventually(isOneDown, 60_000);
    await volume.down();
    await nothingLeft();
    // The portal that is away is no hindrance to the next one.
    await volume.stage({ volume_context });
    await volume.publish({ volume_context });
    assert.equal(readFileSync(path, 'utf8'), 'stop\nsecond-stop\n');
    await volume.down();
    await nothingLeft();
  });

  test('is not disconnected for the host, which has a connection too', async () => {
    const queue = new DiskQueue('host', 1);
    const hostnqn = 'nqn.2014-08.org.nvmexpress:uuid:44444444-4444-4444-8444-444444444444';
    const hostid = '44444444-4444-4444-8444-444444444444';
    const [traddr, trsvcid] = ['127.0.0.1', '4420'];
    await connectNvme(queue, { nqn, transport: 'tcp', traddr, trsvcid, hostnqn, hostid });
    const volume = harness.volume('shared', mountCapability('SINGLE_NODE_WRITER', [], 'xfs'));
    await volume.up(contextOf(first));
    assert.equal(controllers().length, 2);
    await volume.down();
    assert.deepEqual(
      controllers().map(({ hostNqn }) => hostNqn),
      [hostnqn],
    );
    assert.deepEqual(harness.notes(), []);
    for (const controller of controllers()) await disconnectNvme(queue, controller);
    await nothingLeft();
  });

  test('is not disconnected for the host that has the very connection', async () => {
    const id = '55555555-5555-4555-8555-555555555555';
    const hostNqn = `nqn.2014-08.org.nvmexpress:uuid:${id}`;
    const line = { nqn, transport: 'tcp', traddr: '127.0.0.1', trsvcid: '4420', hostnqn: hostNqn, hostid: id };
    await connectNvme(new DiskQueue('host', 1), line);
    const volume = harness.volume('of the host', mountCapability('SINGLE_NODE_WRITER', [], 'xfs'));
    const volume_context = { ...contextOf(first), hostNqn, hostId: id };
    await volume.stage({ volume_context });
    assert.equal(controllers().length, 1);
    await volume.unstage();
    assert.equal(controllers().length, 1);
    assert.deepEqual([harness.mounts(), harness.notes()], [[], []]);
    for (const controller of controllers()) await disconnectNvme(new DiskQueue('host', 1), controller);
  });

  test('stays connected while somebody else has another namespace mounted through the connection', async () => {
    const volume = harness.volume('beside', mountCapability('SINGLE_NODE_WRITER', [], 'xfs'));
    await volume.up(contextOf(first));
    const other = nvmeSubsystem(nqn).namespaces.find(({ uuid }) => uuid === second.replaceAll('-', ''));
    const place = harness.scratch.join('place');
    execFileSync('mkdir', [place]);
    execFileSync('mount', [other?.devicePath ?? assert.fail(), place]);
    await volume.down();
    assert.equal(controllers().length, 1);
    writeFileSync(join(place, 'file'), 'data');
    execFileSync('umount', [place]);
    await harness.restart();
    await nothingLeft();
  });

  test('is not let go while its filesystem lives on in another mount namespace', async () => {
    const volume = harness.volume('elsewhere', mountCapability('SINGLE_NODE_WRITER', [], 'xfs'));
    await volume.up(contextOf(first));
    const elsewhere = spawn('unshare', ['--mount', '--propagation', 'private', 'sleep', 'infinity'], {
      stdio: 'ignore',
    });
    await eventually(() => {
      const tables = [elsewhere.pid, process.pid].map((pid) => readlinkSync(`/proc/${pid}/ns/mnt`));
      assert.notEqual(tables[0], tables[1]);
    });
    await volume.unpublish();
    await refused(volume.unstage(), 'UNAVAILABLE', /its xfs is still in use on nvme/);
    elsewhere.kill();
    await eventually(async () => void (await volume.unstage()));
    await nothingLeft();
  });

  for (const [cut, mend] of [
    ['stop', 'start'],
    ['silence', 'speak'],
  ] as const) {
    test(`is let go of a target that is gone, long before the kernel gives that up: ${cut}`, async () => {
      const volume = harness.volume('dead', mountCapability('SINGLE_NODE_WRITER', [], 'xfs'));
      const volume_context = { ...contextOf(first), ctrlLossTmo: '86400' };
      await volume.stage({ volume_context });
      await volume.publish({ volume_context });
      const path = join(volume.target, 'file');
      writeFileSync(path, 'acknowledged', { flush: true });
      // Not later: to make a file may need the target, and the driver runs in this process.
      writeFileSync(join(volume.target, 'dirty'), 'not acknowledged');
      target(cut);
      await volume.unpublish();
      // The kubelet asks again and again.
      await eventually(async () => void (await volume.unstage()), 300_000);
      await nothingLeft();
      target(mend);
      await volume.up(contextOf(first));
      assert.equal(readFileSync(path, 'utf8'), 'acknowledged');
      await volume.down();
      await nothingLeft();
    });
  }

  test('is unmounted after the kernel has given its target up', async () => {
    const volume = harness.volume('given up', mountCapability('SINGLE_NODE_WRITER', [], 'xfs'));
    await volume.up(contextOf(first));
    target('stop');
    await eventually(() => assert.deepEqual(controllers(), []), 300_000);
    await harness.restart();
    assert.equal((await volume.stats()).volume_condition?.abnormal, true);
    await volume.down();
    await nothingLeft();
    target('start');
  });

  test('is reported while its target is away, continues when it is back, and is let go if it stays away', async () => {
    const volume = harness.volume('cut', mountCapability('SINGLE_NODE_WRITER', [], 'xfs'));
    const volume_context = { ...contextOf(first), ctrlLossTmo: '60' };
    await volume.stage({ volume_context });
    await volume.publish({ volume_context });
    target('stop');
    await eventually(async () => {
      assert.match((await volume.stats()).volume_condition?.message ?? '', /No connection to the target/);
    });
    target('start');
    await eventually(async () => {
      assert.equal((await volume.stats()).volume_condition?.abnormal, false);
    });
    writeFileSync(join(volume.target, 'file'), 'still there');
    await volume.down();
    await nothingLeft();
    await volume.up(contextOf(first));
    target('stop');
    // The kernel gives the target up after ctrlLossTmo; an unmount waits for that.
    await volume.down();
    await nothingLeft();
    target('start');
  });
});
