import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, statfsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { ephemeralIdFor } from '../../src/volume/id.ts';
import { CallError, type DriverClient } from '../support/client.ts';
import { assertNothingLeft, DriverProcess } from '../support/driver.ts';
import { eventually } from '../support/eventually.ts';
import { GitRepository } from '../support/git-repository.ts';
import { SilentServer } from '../support/git-server.ts';
import { Scratch } from '../support/scratch.ts';

/** An inline volume of a pod, in a driver that is a process of its own. */
class InlineVolume {
  readonly handle: string;
  readonly target: string;
  readonly #attributes: Readonly<Record<string, string>>;

  /** @param size none: the pod says nothing of it */
  constructor(scratch: Scratch, name: string, attributes: Readonly<Record<string, string>>, size?: 'none') {
    this.handle = `csi-${name}`;
    this.target = scratch.join('kubelet', name, 'mount');
    this.#attributes = { ...(size === undefined && { size: '32Mi' }), ...attributes };
    mkdirSync(join(this.target, '..'), { recursive: true });
  }

  publish(client: DriverClient, attributes = {}) {
    return client.node.NodePublishVolume({
      volume_id: this.handle,
      target_path: this.target,
      volume_capability: { mount: {}, access_mode: { mode: 'SINGLE_NODE_WRITER' } },
      volume_context: { 'csi.storage.k8s.io/ephemeral': 'true', ...this.#attributes, ...attributes },
    });
  }

  unpublish(client: DriverClient) {
    return client.node.NodeUnpublishVolume({ volume_id: this.handle, target_path: this.target });
  }
}

/** A pool that keeps what is deleted. */
const config = (scratch: Scratch) => `pools:\n  p: { directory: ${scratch.join('pool')}, undelete: 1h }\n`;

function isCode(code: string) {
  return (error: unknown) => error instanceof CallError && error.code === code;
}

test('maxInlineSize: a pod that asks for more is refused, one that asks for nothing gets no more', async () => {
  using scratch = new Scratch('inline');
  await using driver = await DriverProcess.start(scratch, { config: `${config(scratch)}maxInlineSize: 64Mi\n` });
  using client = driver.connect();
  const volume = new InlineVolume(scratch, 'a', {});
  await assert.rejects(volume.publish(client, { size: '65Mi' }), {
    message:
      'Volume attribute size: ask for at most 64Mi, not 65Mi. It is what maxInlineSize of this node allows inline volumes.',
  });
  await volume.publish(client, { size: '64Mi' });
  await volume.publish(client, { size: '64Mi' });
  await volume.unpublish(client);
  const unsized = new InlineVolume(scratch, 'b', {}, 'none');
  await unsized.publish(client);
  const { bsize, blocks } = statfsSync(unsized.target);
  assert.ok(bsize * blocks <= 64 << 20);
  await unsized.unpublish(client);
});

test('an inline volume is nothing to the controller, and goes for good where deleted volumes are kept', async () => {
  using scratch = new Scratch('inline');
  const repository = new GitRepository(scratch.path);
  await using driver = await DriverProcess.start(scratch, { config: config(scratch) });
  using client = driver.connect();
  const volume = new InlineVolume(scratch, 'a', { gitRepository: repository.path });
  await volume.publish(client);
  assert.equal(readFileSync(join(volume.target, 'file'), 'utf8'), 'two');
  assert.deepEqual((await client.controller.ListVolumes({})).entries, []);
  const volume_id = ephemeralIdFor('node-1', volume.handle);
  assert.deepEqual(readdirSync(scratch.join('pool', 'volumes')), [volume_id]);
  await assert.rejects(client.controller.ControllerGetVolume({ volume_id }), isCode('NOT_FOUND'));
  await assert.rejects(
    client.controller.ControllerModifyVolume({ volume_id, mutable_parameters: { undelete: '1h' } }),
    isCode('NOT_FOUND'),
  );
  await assert.rejects(client.controller.DeleteVolume({ volume_id }), isCode('FAILED_PRECONDITION'));
  assert.equal(readFileSync(join(volume.target, 'file'), 'utf8'), 'two');
  await volume.unpublish(client);
  await eventually(() => assert.deepEqual(readdirSync(scratch.join('pool', 'trash')), []));
  assert.deepEqual(readdirSync(scratch.join('pool', 'volumes')), []);
  await driver.stop();
  await assertNothingLeft(scratch);
});

test('T04: a driver that dies with a volume mounted finds it again; after a reboot it is gone', async () => {
  using scratch = new Scratch('inline');
  await using first = await DriverProcess.start(scratch, { config: config(scratch) });
  const volume = new InlineVolume(scratch, 'a', {});
  const lost = new InlineVolume(scratch, 'b', {});
  {
    using client = first.connect();
    await volume.publish(client);
    await lost.publish(client);
  }
  writeFileSync(join(volume.target, 'file'), 'kept');
  await first.kill();
  // What a reboot does to the mounts.
  execFileSync('umount', [lost.target]);
  await using second = await DriverProcess.start(scratch, { config: config(scratch) });
  using client = second.connect();
  assert.equal(readdirSync(scratch.join('pool', 'volumes')).length, 1);
  await volume.publish(client);
  assert.equal(readFileSync(join(volume.target, 'file'), 'utf8'), 'kept');
  await lost.publish(client);
  assert.deepEqual(readdirSync(lost.target), []);
  await lost.unpublish(client);
  await volume.unpublish(client);
  assert.deepEqual(readdirSync(scratch.join('pool', 'volumes')), []);
});

test('T02 T04: killed while git works, nothing of it is left at the next start', async () => {
  using scratch = new Scratch('inline');
  const repository = new GitRepository(scratch.path);
  using silent = await SilentServer.start();
  const volume = new InlineVolume(scratch, 'a', { gitRepository: silent.url });
  await using first = await DriverProcess.start(scratch, { config: config(scratch) });
  {
    using client = first.connect();
    const publishing = assert.rejects(volume.publish(client), isCode('UNAVAILABLE'));
    await silent.asked();
    assert.equal(readdirSync(scratch.join('pool', 'volumes')).length, 1);
    await first.kill();
    await publishing;
  }
  assert.ok(!existsSync(volume.target));
  await using second = await DriverProcess.start(scratch, { config: config(scratch) });
  using client = second.connect();
  assert.deepEqual(readdirSync(scratch.join('pool', 'volumes')), []);
  await assertNothingLeft(scratch);
  await volume.publish(client, { gitRepository: repository.path });
  assert.equal(readFileSync(join(volume.target, 'file'), 'utf8'), 'two');
  await volume.unpublish(client);
});

test('X01: no credentials in the log, at any level', async () => {
  using scratch = new Scratch('inline');
  const environment = { HOLDFAST_LOG_LEVEL: 'trace' };
  await using driver = await DriverProcess.start(scratch, { config: config(scratch), environment });
  using client = driver.connect();
  const volume = new InlineVolume(scratch, 'a', {
    'csi.storage.k8s.io/serviceAccount.tokens': '{"":{"token":"hunter2"}}',
  });
  for (const gitRepository of ['https://user:hunter2@localhost:1/x', 'https://localhost:1/x?token=hunter2']) {
    await assert.rejects(volume.publish(client, { gitRepository }), isCode('INVALID_ARGUMENT'));
  }
  await volume.publish(client);
  await volume.unpublish(client);
  // Its last lines are written by then.
  await driver.stop();
  assert.match(driver.output(), /NodePublishVolume/);
  assert.ok(!driver.output().includes('hunter2'));
});
