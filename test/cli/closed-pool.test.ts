import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { describe, test } from 'node:test';
import { withoutOthersLoops } from '../support/child.ts';
import { holdfast } from '../support/command.ts';
import { assertNothingLeft, DriverProcess, driverCommand, environmentFor } from '../support/driver.ts';
import { TestVolume } from '../support/life.ts';
import { Scratch } from '../support/scratch.ts';

const filePool = (scratch: Scratch, name = 'pool.img') => ({
  config: `pools:\n  default: { file: ${scratch.join(name)}, size: 1Gi }\n`,
});

/** A volume and its snapshot, in a pool that is a file or a disk. */
async function fill(scratch: Scratch, driver: DriverProcess): Promise<{ id: string; snapshotId: string }> {
  using client = driver.connect();
  const id = await new TestVolume(scratch, 'v').create(client);
  const { snapshot } = await client.controller.CreateSnapshot({ source_volume_id: id, name: 's' });
  return { id, snapshotId: snapshot?.snapshot_id ?? '' };
}

/** Every command that looks shows them, and is content. */
async function assertShown(
  environment: Readonly<Record<string, string>>,
  { id, snapshotId }: { id: string; snapshotId: string },
): Promise<void> {
  const volumes = await holdfast(['volumes'], environment);
  assert.deepEqual([volumes.code, volumes.stderr], [0, '']);
  assert.match(volumes.stdout, new RegExp(`^${id} +- +v +default +64Mi +[0-9.]+[KM]i +ext4 +1 +detached `, 'm'));
  const snapshots = await holdfast(['snapshots'], environment);
  assert.deepEqual([snapshots.code, snapshots.stderr], [0, '']);
  assert.match(snapshots.stdout, new RegExp(`^${snapshotId} `, 'm'));
  const manifests = await holdfast(['export', '--storage-class', 'local'], environment);
  assert.deepEqual([manifests.code, manifests.stderr], [0, '']);
  assert.match(manifests.stdout, new RegExp(`volumeHandle: ${id}`));
  const pools = await holdfast(['pools', '--json'], environment);
  assert.equal(pools.code, 0, pools.stderr);
  const [pool] = JSON.parse(pools.stdout).pools;
  assert.deepEqual([pool.state, pool.volumes, pool.capacity.provisionedBytes], ['closed', 1, String(64 << 20)]);
}

describe('a pool that is not mounted, as no driver runs', () => {
  test('a backing file is read, and nothing is written or left', async () => {
    using scratch = new Scratch('cli');
    const options = filePool(scratch);
    const driver = await DriverProcess.start(scratch, options);
    const made = await fill(scratch, driver);
    await driver.stop();
    execFileSync('cp', ['--sparse=always', scratch.join('pool.img'), scratch.join('before.img')]);
    await assertShown(environmentFor(scratch, options), made);
    execFileSync('cmp', [scratch.join('pool.img'), scratch.join('before.img')]);
    await assertNothingLeft(scratch);
    await using again = await DriverProcess.start(scratch, options);
    using client = again.connect();
    await client.controller.DeleteSnapshot({ snapshot_id: made.snapshotId });
  });

  test('the default pool is, too: export needs neither driver nor cluster', async () => {
    using scratch = new Scratch('cli');
    const driver = await DriverProcess.start(scratch);
    const made = await fill(scratch, driver);
    await driver.stop();
    const { code, stdout } = await holdfast(['export', '--storage-class', 'local'], environmentFor(scratch));
    assert.equal(code, 0);
    assert.match(stdout, new RegExp(`volumeHandle: ${made.id}`));
    await assertNothingLeft(scratch);
  });

  test('a disk is read, too', async () => {
    using scratch = new Scratch('cli');
    execFileSync('truncate', ['--size=1G', scratch.join('disk.img')]);
    const losetup = ['--find', '--show', scratch.join('disk.img')];
    const disk = execFileSync('losetup', losetup, { encoding: 'utf8' }).trim();
    const options = { config: `pools:\n  default: { device: ${disk} }\n` };
    const driver = await DriverProcess.start(scratch, options);
    const made = await fill(scratch, driver);
    await driver.stop();
    execFileSync('cp', ['--sparse=always', scratch.join('disk.img'), scratch.join('before.img')]);
    await assertShown(environmentFor(scratch, options), made);
    execFileSync('cmp', [scratch.join('disk.img'), scratch.join('before.img')]);
  });

  test('one that was not unmounted in order is not guessed at: its log may have the last volumes', async () => {
    using scratch = new Scratch('cli');
    const driver = await DriverProcess.start(scratch, filePool(scratch));
    await fill(scratch, driver);
    // As a power cut leaves it: what is in the log only is not yet in its place.
    execFileSync('cp', ['--sparse=always', scratch.join('pool.img'), scratch.join('cut.img')]);
    await driver.stop();
    const environment = environmentFor(scratch, filePool(scratch, 'cut.img'));
    execFileSync('cp', ['--sparse=always', scratch.join('cut.img'), scratch.join('before.img')]);
    const { code, stdout, stderr } = await holdfast(['export'], environment);
    assert.deepEqual([code, stdout], [1, '']);
    assert.match(stderr, /^holdfast: pool default: .*cut\.img was not unmounted in order.*holdfast serve/m);
    execFileSync('cmp', [scratch.join('cut.img'), scratch.join('before.img')]);
    await assertNothingLeft(scratch);
  });
});

test('a pool that a driver has mounted in another mount namespace is read as that driver sees it', async () => {
  using scratch = new Scratch('cli');
  const options = filePool(scratch);
  const script = `${withoutOthersLoops}\nexec "$0" "$@"`;
  const apart = ['unshare', '--mount', '--propagation', 'private', 'sh', '-ec', script, ...driverCommand];
  await using driver = await DriverProcess.start(scratch, { ...options, command: apart });
  const made = await fill(scratch, driver);
  assert.deepEqual(scratch.mounts(), []);
  await assertShown(environmentFor(scratch, options), made);
  // It has noticed nothing.
  using client = driver.connect();
  await client.controller.DeleteSnapshot({ snapshot_id: made.snapshotId });
});
