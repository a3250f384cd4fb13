/**
 * Runs in the virtual machine: volumes that move between nodes, from images to logical volumes, thin or not, to those of another
 * group, and back; encrypted or not.
 * node nodes-in-guest.ts DIRECTORY DISK DISK [thin]
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { closeSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, test } from 'node:test';
import type { VolumeId } from '../../../src/volume/id.ts';
import { deviceOf, digestIn, digestOf, write, written } from '../../move/devices.ts';
import { Broker, introduce, MovingNode, order } from '../../move/two-nodes.ts';
import { BeforeStep } from '../../support/before-step.ts';
import { eventually } from '../../support/eventually.ts';
import { volumeSpec } from '../../support/image-pool.ts';
import { guestArguments, lvm, testThinPool } from '../../support/lvm-pool.ts';
import { mountedDevice } from '../../support/mounted-volume.ts';
import { Scratch } from '../../support/scratch.ts';
import { openIn, openLvmWithLayer } from './encrypted-pool.ts';

const [, , directory = ''] = process.argv;
const { disks, options } = guestArguments();
const [first = '', second = ''] = disks;
const isThin = options.thinPool !== undefined;
const thinPool = isThin ? { thinPool: { ...testThinPool, sizeBytes: 1536n << 20n } } : {};
const mib = 1n << 20n;
/** The processor is emulated, and all bytes of a volume are encrypted on their way. */
const sizeBytes = 24n * mib;
const patienceMs = 300_000;

/** Three nodes: a has images, b and c have a volume group each. */
class Scene implements AsyncDisposable {
  readonly scratch: Scratch;
  readonly nodes = new Map<string, MovingNode>();
  readonly #broker = new Broker();
  readonly #groups: ReadonlyMap<string, string>;

  private constructor(scratch: Scratch) {
    this.scratch = scratch;
    const named = (name: string) => `${basename(scratch.path)}-${name}`;
    this.#groups = new Map([
      ['b', named('b')],
      ['c', named('c')],
    ]);
  }

  static async open(scratch: Scratch): Promise<Scene> {
    const scene = new Scene(scratch);
    for (const [index, group] of [...scene.#groups.values()].entries()) {
      lvm('vgcreate', '--yes', group, index === 0 ? first : second);
    }
    for (const name of ['a', 'b', 'c']) await scene.start(name);
    return scene;
  }

  get(name: string): MovingNode {
    return this.nodes.get(name) ?? assert.fail(name);
  }

  async start(name: string): Promise<MovingNode> {
    const { scratch } = this;
    const group = this.#groups.get(name);
    const node = await MovingNode.open(scratch, this.#broker, name, {
      openData: (common) => {
        const chosen = { ...common, nodeName: name, undeleteSeconds: 60 };
        if (group !== undefined) return openLvmWithLayer(scratch, group, { ...thinPool, ...chosen });
        return openIn(join(directory, basename(scratch.path)), scratch, chosen);
      },
    });
    this.nodes.set(name, node);
    return node;
  }

  async restart(name: string): Promise<MovingNode> {
    await this.get(name)[Symbol.asyncDispose]();
    return this.start(name);
  }

  /** The logical volumes of a node's volumes, deleted or not, and of their drafts. */
  volumesOf(name: string): string[] {
    const lines = lvm('lvs', '--noheadings', '-o', 'lv_name,lv_tags', this.#groups.get(name) ?? '').split('\n');
    return lines.filter((line) => /holdfast\.(volume|snapshot|draft|removed|trash)/.test(line));
  }

  async move(id: VolumeId, from: string, to: string): Promise<void> {
    await order(this.get(from), this.get(to), id);
    await this.arrived(id, to);
  }

  async arrived(id: VolumeId, to: string): Promise<void> {
    const sight = () => this.get(to).sight(id);
    await eventually(() => assert.notEqual(sight().job.state, 'running', `${sight().trouble}`), patienceMs);
    const { reason, state } = sight().job;
    assert.deepEqual([state, reason], ['done', undefined]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const node of this.nodes.values()) await node[Symbol.asyncDispose]();
    for (const group of this.#groups.values()) lvm('vgremove', '--force', '--force', '--yes', group);
  }
}

describe(`a move between nodes, from images to ${isThin ? 'thin ' : ''}logical volumes and back`, () => {
  for (const encryption of [undefined, 'luks2'] as const) {
    test(`to one group, another one, and images: ${encryption ?? 'not encrypted'}`, async () => {
      using scratch = new Scratch('nodes');
      await using scene = await Scene.open(scratch);
      const spec = { ...volumeSpec(`moved ${encryption}`, { sizeBytes }), encryption };
      const { id } = spec;
      const content = randomBytes(3 << 20);
      await scene.get('a').pool.create(spec);
      {
        await using mounted = await mountedDevice(scene.get('a').pool, id, scratch);
        writeFileSync(join(mounted.path, 'file'), content, { flush: true });
      }
      let from = 'a';
      for (const to of ['b', 'c', 'a']) {
        await scene.move(id, from, to);
        assert.equal(await scene.get(from).pool.find(id), undefined);
        const { pool } = scene.get(to);
        const record = (await pool.find(id)) ?? assert.fail(to);
        assert.equal(record.encryption?.type, encryption);
        {
          await using mounted = await mountedDevice(pool, id, scratch);
          assert.ok(readFileSync(join(mounted.path, 'file')).equals(content), to);
          writeFileSync(join(mounted.path, `at ${to}`), from, { flush: true });
          if (from !== 'a') assert.ok(readFileSync(join(mounted.path, `at ${from}`)).length > 0);
        }
        await eventually(async () => assert.deepEqual(await pool.inUse(id), []));
        const [left] = await scene.get(from).pool.trash();
        assert.equal(left?.record.id, id);
        assert.equal(Date.parse(left.purgeAt) - Date.parse(left.deletedAt), 7 * 86_400_000);
        await scene.get(from).pool.purge();
        from = to;
      }
      assert.equal((await scene.get('a').pool.moves?.stateOf(id))?.mark.generation, 3);
      for (const name of ['b', 'c']) await eventually(() => assert.deepEqual(scene.volumesOf(name), []));
    });
  }

  test('has all bytes of a raw block volume, zeros and its last ones too, whatever the disks held before', async () => {
    using scratch = new Scratch('nodes');
    await using scene = await Scene.open(scratch);
    const [a, b] = [scene.get('a'), scene.get('b')];
    const block = { content: { type: 'block' }, sizeBytes } as const;
    const before = volumeSpec('before', { ...block, provisioning: isThin ? 'thin' : 'thick' });
    await b.pool.create(before);
    {
      await using device = await deviceOf(b, before.id);
      write(device.devicePath, randomBytes(Number(sizeBytes)), 0n);
    }
    await b.pool.remove(before.id);
    await b.pool.purge();
    const spec = volumeSpec('data', block);
    const { id } = spec;
    await a.pool.create(spec);
    {
      await using device = await deviceOf(a, id);
      write(device.devicePath, randomBytes(4096), 0n);
      write(device.devicePath, randomBytes(1 << 20), 13n * mib + 4096n);
      write(device.devicePath, randomBytes(4096), sizeBytes - 4096n);
    }
    const digest = await digestIn(a, id);
    let from = 'a';
    for (const to of ['b', 'c', 'a']) {
      await scene.move(id, from, to);
      assert.equal(await digestIn(scene.get(to), id), digest, to);
      from = to;
    }
  });

  test('while a pod writes: it waits for the end of the pod, or copies before that, and has all of it', async () => {
    using scratch = new Scratch('nodes');
    await using scene = await Scene.open(scratch);
    const [b, c] = [scene.get('b'), scene.get('c')];
    const spec = volumeSpec('data', { content: { type: 'block' }, sizeBytes });
    const { id } = spec;
    await b.pool.create(spec);
    await written(b, id);
    let digest = '';
    {
      await using device = await deviceOf(b, id);
      // One that nothing has open, and that no pod shows, is not in use.
      using held = new DisposableStack();
      held.adopt(openSync(device.devicePath, 'r'), closeSync);
      await order(b, c, id);
      const isWaiting = () => {
        const { job, progress, trouble } = c.sight(id);
        assert.equal(progress?.phase, 'waiting', `${job.state} ${job.reason} ${trouble}`);
      };
      await eventually(isWaiting, patienceMs);
      if (isThin) assert.ok((c.sight(id).progress?.doneBytes ?? 0n) >= 4n * mib);
      write(device.devicePath, randomBytes(2 << 20), 20n * mib);
      digest = digestOf(device.devicePath);
    }
    await scene.arrived(id, 'c');
    assert.equal(await digestIn(c, id), digest);
    assert.deepEqual(await b.pool.listSnapshots(undefined, undefined), []);
  });

  test('goes on after a restart of either node, and leaves nothing where it is given up', async () => {
    using scratch = new Scratch('nodes');
    await using scene = await Scene.open(scratch);
    const spec = volumeSpec('data', { content: { type: 'block' }, sizeBytes });
    const { id } = spec;
    await scene.get('a').pool.create(spec);
    {
      await using device = await deviceOf(scene.get('a'), id);
      write(device.devicePath, randomBytes(16 << 20), 0n);
    }
    const digest = await digestIn(scene.get('a'), id);
    const halfCame = () => assert.ok((scene.get('b').sight(id).progress?.doneBytes ?? 0n) > 2n * mib);
    const slowly = () => order(scene.get('a'), scene.get('b'), id, mib);
    await slowly();
    await eventually(halfCame);
    await scene.get('b').mover.cancel(id);
    await eventually(() => assert.deepEqual(scene.volumesOf('b'), []));
    assert.equal(await digestIn(scene.get('a'), id), digest);
    const moveId = await slowly();
    for (const name of ['b', 'a']) {
      await eventually(halfCame);
      await scene.restart(name);
      await introduce(scene.get('a'), scene.get('b'), { id, moveId });
    }
    await scene.arrived(id, 'b');
    assert.equal(await digestIn(scene.get('b'), id), digest);
    assert.deepEqual(await scene.get('a').pool.listSnapshots(undefined, undefined), []);
  });

  test('of a volume that is expanded in it: what it has grown by is zeros, also if they were cut short', async () => {
    using scratch = new Scratch('nodes');
    await using scene = await Scene.open(scratch);
    const { pool } = scene.get('b');
    const block = { content: { type: 'block' }, sizeBytes: 64n * mib } as const;
    const before = volumeSpec('before', { ...block, provisioning: isThin ? 'thin' : 'thick', wipe: 'none' });
    await pool.create(before);
    {
      await using device = await deviceOf(scene.get('b'), before.id);
      write(device.devicePath, randomBytes(64 << 20), 0n);
    }
    await pool.remove(before.id);
    await pool.purge();
    await eventually(() => assert.deepEqual(scene.volumesOf('b'), []));
    const small = { ...block, sizeBytes: 8n * mib };
    const record = await scene.get('a').pool.create(volumeSpec('data', small));
    const moves = pool.moves ?? assert.fail();
    const coming = await moves.recordFor(record);
    const larger = { ...coming, sizeBytes: 48n * mib };
    {
      await using incoming = await moves.receive(coming, 'move');
      assert.ok(incoming.kind === 'bytes');
      await incoming.note('move\n');
      const { path } = incoming.data;
      using cut = new BeforeStep('move/zeros', () => execFileSync('blockdev', ['--setro', path]));
      if (isThin) await incoming.fit(larger);
      else await assert.rejects(incoming.fit(larger), { name: 'KernelError' });
      assert.equal(cut.hasHappened, !isThin);
      execFileSync('blockdev', ['--setrw', path]);
    }
    await using incoming = await moves.receive(larger, 'move');
    assert.ok(incoming.kind === 'bytes' && !incoming.isNew);
    const grown = readFileSync(incoming.data.path).subarray(8 << 20);
    assert.ok(grown.equals(Buffer.alloc(40 << 20)), 'what lay on the disk before is in the volume');
    assert.deepEqual(lvm('lvs', '--noheadings', '-o', 'lv_tags').match(/holdfast\.grown/g), null);
    await moves.discard(coming.id);
  });

  test('is refused by a group without room for it, and nothing is changed', async () => {
    using scratch = new Scratch('nodes');
    await using scene = await Scene.open(scratch);
    const [a, b] = [scene.get('a'), scene.get('b')];
    const { availableBytes } = await b.pool.capacity();
    const spec = volumeSpec('large', { content: { type: 'block' }, sizeBytes: availableBytes + 64n * mib });
    await a.pool.create(spec);
    await assert.rejects(order(a, b, spec.id), /large|needs \d+ bytes|free/);
    assert.deepEqual(scene.volumesOf('b'), []);
    assert.equal((await a.pool.moves?.stateOf(spec.id))?.why, undefined);
    assert.deepEqual(await a.pool.listSnapshots(undefined, undefined), []);
  });
});
