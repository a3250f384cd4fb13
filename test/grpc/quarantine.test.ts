import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { CallError, type DriverClient } from '../support/client.ts';
import { holdfast } from '../support/command.ts';
import { remountReadOnly } from '../support/disk.ts';
import { assertNothingLeft, DriverProcess } from '../support/driver.ts';
import { eventually, soon } from '../support/eventually.ts';
import { Frozen } from '../support/frozen.ts';
import { mountWith, TestVolume } from '../support/life.ts';
import { Scratch } from '../support/scratch.ts';

/*
 * A disk that hangs is a filesystem that somebody has frozen: whoever writes to it waits, until it is thawed. One with
 * errors is a filesystem that has shut itself down.
 */

describe('a pool whose disk hangs', () => {
  test('design 3.7: its calls fail and say why, the other pool works, and all is well when the disk is', async () => {
    using scratch = new Scratch('sick');
    const disk = new Disk(scratch);
    await using driver = await DriverProcess.start(scratch, { config: config(scratch, disk) });
    using client = driver.connect();
    const used = new TestVolume(scratch, 'used');
    const id = await used.bringUpIn(client, 'sick');
    writeFileSync(used.file('data'), 'kept');
    using hanging = disk.freeze();

    const message = await refused(create(client, 'new', 'sick'));
    assert.match(message, /pool sick is in quarantine since 20.*has not answered for 2 s/);
    // From now on at once: nobody waits for the call that hangs.
    await refused(create(client, 'new', 'sick'));
    await refused(client.controller.DeleteVolume({ volume_id: id }));
    assert.equal((await client.identity.Probe({})).ready?.value, true);
    assert.equal(await capacityOf(client, 'sick'), 0n);
    assert.ok((await capacityOf(client, 'well')) > 0n);
    const { entries } = await client.controller.ListVolumes({});
    assert.deepEqual(
      entries.map(({ volume, status }) => [volume?.volume_id, status?.volume_condition?.abnormal]),
      [[id, true]],
    );
    const { status } = await client.controller.ControllerGetVolume({ volume_id: id });
    assert.match(status?.volume_condition?.message ?? '', /quarantine/);
    const stats = await client.node.NodeGetVolumeStats({ volume_id: id, volume_path: used.targetPath });
    assert.equal(stats.volume_condition?.abnormal, true);
    assert.match(stats.volume_condition?.message ?? '', /quarantine/);

    const well = new TestVolume(scratch, 'well');
    await well.tearDown(client, await well.bringUpIn(client, 'well'));
    const pools = await soon(holdfast(['pools'], driver.environment), 'holdfast pools hangs', 60_000);
    assert.match(pools.stdout, /sick +image +- +quarantined/);
    assert.match(pools.stderr, /has not answered/);
    // What needs no disk works: a pod can end.
    await used.unpublish(client, id);

    hanging.thaw();
    await eventually(async () => void (await create(client, 'new', 'sick')));
    await used.publish(client, id);
    assert.equal(readFileSync(used.file('data'), 'utf8'), 'kept');
    const healthy = await client.node.NodeGetVolumeStats({ volume_id: id, volume_path: used.targetPath });
    assert.equal(healthy.volume_condition?.abnormal, false);
    assert.ok((await capacityOf(client, 'sick')) > 0n);
    await used.tearDown(client, id);
    assert.equal((await driver.stop()).code, 0);
    disk.unmount();
    await assertNothingLeft(scratch);
  });

  test('O06: the driver stops all the same, and the next one finds everything', async () => {
    using scratch = new Scratch('sick');
    const disk = new Disk(scratch);
    const volume = new TestVolume(scratch, 'v');
    await using driver = await DriverProcess.start(scratch, { config: config(scratch, disk) });
    using client = driver.connect();
    const id = await volume.bringUpIn(client, 'sick');
    using hanging = disk.freeze();
    await refused(create(client, 'new', 'sick'));
    driver.signal('SIGTERM');
    await driver.logged('stopped');
    assert.ok(!existsSync(driver.socketPath));
    // The kernel ends no process while one of its threads waits for a disk; but nothing else is waited for.
    hanging.thaw();
    assert.deepEqual(await driver.ended(), { code: 0, signal: null });
    assert.doesNotMatch(driver.output(), /takes too long to close/);
    await using next = await DriverProcess.start(scratch, { config: config(scratch, disk) });
    using again = next.connect();
    await volume.tearDown(again, id);
  });
});

describe('a pool whose filesystem has shut down after an error', () => {
  test('a disk of its own: mounted anew by itself, as soon as no volume keeps the dead filesystem', async () => {
    using scratch = new Scratch('sick');
    const disk = blankDisk(scratch);
    const options = { config: `pools:\n  p: { device: ${disk}, sickAfter: 2s }\n` };
    await using driver = await DriverProcess.start(scratch, options);
    using client = driver.connect();
    const used = new TestVolume(scratch, 'used');
    const id = await used.bringUp(client);
    writeFileSync(used.file('data'), 'kept');
    execFileSync('sync', ['--file-system', used.targetPath]);
    const block = new TestVolume(scratch, 'block', rawBlock);
    const blockId = await block.bringUp(client);
    shutDown(scratch.join('data', 'pools', 'p'));

    await eventually(async () => assert.match(await refusedOrIo(create(client, 'new', 'p')), /quarantine/));
    assert.equal(await capacityOf(client, 'p'), 0n);
    await eventually(async () => assert.match(await refused(create(client, 'new', 'p')), /Stop the pods/));
    await used.unpublish(client, id);
    await used.unstage(client, id);
    await block.unpublish(client, blockId);
    await block.unstage(client, blockId);

    await eventually(async () => void (await create(client, 'new', 'p')));
    await used.stage(client, id);
    await used.publish(client, id);
    assert.equal(readFileSync(used.file('data'), 'utf8'), 'kept');
    await used.tearDown(client, id);
    await block.stage(client, blockId);
    await block.publish(client, blockId);
    await block.tearDown(client, blockId);
  });

  test('a disk of its own, met by a new driver: what nobody can see keeps nothing mounted', async () => {
    using scratch = new Scratch('sick');
    const pools = `p: { device: ${blankDisk(scratch)}, sickAfter: 2s }\n  well: { directory: ${scratch.join('well')} }`;
    const options = { config: `defaultPool: p\npools:\n  ${pools}\n` };
    const block = new TestVolume(scratch, 'block', rawBlock);
    const first = await DriverProcess.start(scratch, options);
    using before = first.connect();
    const id = await block.bringUp(before);
    shutDown(scratch.join('data', 'pools', 'p'));
    await first.stop();

    await using driver = await DriverProcess.start(scratch, options);
    using client = driver.connect();
    assert.match(await refused(create(client, 'new', 'p')), /could not be opened: volumes in use .* Stop the pods/);
    await block.unpublish(client, id);
    await block.unstage(client, id);
    await eventually(async () => void (await create(client, 'new', 'p')));
    await block.stage(client, id);
    await block.publish(client, id);
    await block.tearDown(client, id);
  });

  test('a directory: well again when its owner has mounted it anew', async () => {
    using scratch = new Scratch('sick');
    const disk = new Disk(scratch);
    // Asked only now and then it would not be found out in time: a call that fails is reason to ask at once.
    const slow = config(scratch, disk).replace('sickAfter: 2s', 'sickAfter: 20s');
    await using driver = await DriverProcess.start(scratch, { config: slow });
    using client = driver.connect();
    // Raw: a template, which the pool holds open, would keep its filesystem from becoming read-only.
    const kept = await create(client, 'kept', 'sick', rawBlock);
    await remountReadOnly(disk.directory);
    const words = /in quarantine since .*: its filesystem has become read-only/;
    await eventually(async () => assert.match(await refusedOrIo(create(client, 'new', 'sick')), words));
    execFileSync('mount', ['-o', 'remount,rw', disk.directory]);
    await eventually(async () => void (await create(client, 'new', 'sick')));
    assert.deepEqual(await create(client, 'kept', 'sick', rawBlock), kept);
  });
});

describe('what is asked for again while its pool is in quarantine', () => {
  test('CS04 CS05 GR05 GR06: a snapshot or group is found and answered, and its name is not taken a second time', async () => {
    using scratch = new Scratch('sick');
    const disk = new Disk(scratch);
    await using driver = await DriverProcess.start(scratch, { config: config(scratch, disk) });
    using client = driver.connect();
    const { controller, groupController } = client;
    const source_volume_id = volumeIdOf(await create(client, 'a', 'sick', rawBlock));
    const elsewhere = volumeIdOf(await create(client, 'b', 'well'));
    const cut = () => controller.CreateSnapshot({ source_volume_id, name: 's' });
    const cutGroup = () =>
      groupController.CreateVolumeGroupSnapshot({ source_volume_ids: [source_volume_id], name: 'g' });
    const [snapshot, group] = [await cut(), await cutGroup()];
    await remountReadOnly(disk.directory);
    await eventually(async () => assert.match(await refusedOrIo(create(client, 'new', 'sick')), /quarantine/));

    assert.deepEqual(await cut(), snapshot);
    assert.deepEqual(await cutGroup(), group);
    assert.match(
      await refused(controller.CreateSnapshot({ source_volume_id, name: 't' })),
      /pool sick is in quarantine/,
    );
    const taken = { code: 'ALREADY_EXISTS', message: new RegExp(`${source_volume_id}`) };
    await assert.rejects(controller.CreateSnapshot({ source_volume_id: elsewhere, name: 's' }), taken);
    await assert.rejects(
      groupController.CreateVolumeGroupSnapshot({ source_volume_ids: [elsewhere], name: 'g' }),
      taken,
    );
    await controller.CreateSnapshot({ source_volume_id: elsewhere, name: 'u' });

    execFileSync('mount', ['-o', 'remount,rw', disk.directory]);
    await eventually(async () => void (await controller.CreateSnapshot({ source_volume_id, name: 't' })));
    assert.deepEqual(await cut(), snapshot);
  });
});

const rawBlock = { block: {}, access_mode: { mode: 'SINGLE_NODE_WRITER' } } as const;

/** A pool on a disk of its own, and one beside it. */
function config(scratch: Scratch, disk: Disk): string {
  return [
    'pools:',
    `  sick: { directory: ${disk.directory}/pool, sickAfter: 2s }`,
    `  well: { directory: ${scratch.join('well-pool')}, sickAfter: 20s }`,
    'defaultPool: well',
    '',
  ].join('\n');
}

/** XFS on a loop device. */
class Disk {
  readonly directory: string;

  constructor(scratch: Scratch) {
    const image = scratch.join('disk.img');
    this.directory = scratch.join('disk');
    mkdirSync(this.directory);
    execFileSync('truncate', ['--size=2G', image]);
    execFileSync('mkfs.xfs', ['-q', image]);
    execFileSync('mount', ['-o', 'loop', image, this.directory]);
  }

  /** It hangs until it is thawed, and no longer than the test runs. */
  freeze(): Frozen {
    return Frozen.byHook(this.directory);
  }

  unmount(): void {
    execFileSync('umount', [this.directory]);
  }
}

function create(
  client: DriverClient,
  name: string,
  pool: string,
  capability: TestVolume['capability'] = mountWith('ext4'),
) {
  return client.controller.CreateVolume({
    name,
    capacity_range: { required_bytes: 64n << 20n },
    volume_capabilities: [capability],
    parameters: { pool },
  });
}

function volumeIdOf({ volume }: Awaited<ReturnType<typeof create>>): string {
  assert.ok(volume);
  return volume.volume_id;
}

async function capacityOf(client: DriverClient, pool: string): Promise<bigint> {
  return (await client.controller.GetCapacity({ parameters: { pool } })).available_capacity;
}

function blankDisk(scratch: Scratch): string {
  const image = scratch.join('disk.img');
  execFileSync('truncate', ['--size=2G', image]);
  return execFileSync('losetup', ['--find', '--show', image], { encoding: 'utf8' }).trim();
}

/** XFS_IOC_GOINGDOWN: what XFS does by itself when it cannot write its log. */
function shutDown(directory: string): void {
  const program =
    'import fcntl, os, struct, sys; fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587d, struct.pack("I", 2))';
  execFileSync('python3', ['-c', program, directory]);
}

/** Its words; the first call that the disk fails gets the disk's own. */
async function refusedOrIo(call: Promise<unknown>): Promise<string> {
  const error = await call.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof CallError, `${error}`);
  return error.message;
}

/** The words of the refusal. */
async function refused(call: Promise<unknown>): Promise<string> {
  const error = await call.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof CallError, `${error}`);
  assert.equal(error.code, 'UNAVAILABLE', error.message);
  return error.message;
}
