import assert from 'node:assert/strict';
import { test } from 'node:test';
import { repeatable, SeededRandom } from '../../crash/seeded-random.ts';
import { CallError } from '../../support/client.ts';
import { mountCapability } from '../../support/node-volume.ts';
import { Scratch } from '../../support/scratch.ts';
import type { TestCloud } from '../clouds.ts';
import type { FakeCloud, FakeVolume } from '../fake-cloud.ts';
import { Home } from '../home.ts';

/*
 * Volumes are made, attached to two machines, detached and deleted at random, while answers are lost and the home is killed. An
 * orchestrator that knows only answers does that, as Kubernetes does: what failed is called again, or undone.
 */

/** HOLDFAST_TEST_SEED repeats a run's choices. */
const seed = Number(process.env['HOLDFAST_TEST_SEED'] ?? Math.floor(Math.random() * 2 ** 32));
const operations = Number(process.env['HOLDFAST_TEST_OPERATIONS'] ?? 2_000);
const workers = 8;
const capability = mountCapability();

/** What the orchestrator knows of a volume. */
interface Known {
  readonly name: string;
  volumeId: string | undefined;
  /** The machines that may have it: a publish was begun, and no unpublish has succeeded since. */
  readonly maybeAt: Set<string>;
  /** The machine that a publish has answered for. */
  at: string | undefined;
}

class Orchestrator {
  readonly #cloud: TestCloud;
  readonly #fake: FakeCloud;
  readonly #home: Home;
  readonly #random: SeededRandom;
  done = 0;

  constructor(cloud: TestCloud, fake: FakeCloud, home: Home, random: SeededRandom) {
    this.#cloud = cloud;
    this.#fake = fake;
    this.#home = home;
    this.#random = random;
  }

  /** @returns undefined: it failed, in words */
  async #call<T>(call: (controller: Home['controller']) => Promise<T>): Promise<T | undefined> {
    this.done++;
    await this.#home.start();
    if (this.#random.chance(0.03)) setTimeout(() => void this.#home.kill(), this.#random.below(120));
    try {
      return await call(this.#home.controller);
    } catch (error) {
      assert.ok(error instanceof CallError, String(error));
      assert.ok(
        ['UNAVAILABLE', 'ABORTED', 'FAILED_PRECONDITION', 'CANCELLED'].includes(error.code),
        `${error.name}: ${error.message}`,
      );
      return undefined;
    }
  }

  async live(worker: number): Promise<void> {
    for (let life = 0; this.done < operations; life++) {
      const known: Known = { name: `w${worker}-${life}`, volumeId: undefined, maybeAt: new Set(), at: undefined };
      await this.#make(known);
      for (let step = this.#random.below(12); step > 0; step--) await this.#step(known);
      await this.#end(known);
    }
  }

  async #make(known: Known): Promise<void> {
    while (known.volumeId === undefined) {
      const made = await this.#call((controller) =>
        controller.CreateVolume({
          name: known.name,
          capacity_range: { required_bytes: 1n << 30n },
          volume_capabilities: [capability],
        }),
      );
      known.volumeId = made?.volume?.volume_id;
    }
    assert.equal(this.#disksOf(known).length, 1, `${known.name} was made`);
  }

  async #step(known: Known): Promise<void> {
    const machine = this.#random.pick(this.#cloud.machines);
    if (this.#random.chance(0.5)) await this.#publish(known, machine);
    else await this.#unpublish(known, machine);
  }

  async #publish(known: Known, node_id: string): Promise<void> {
    const { volumeId: volume_id = '' } = known;
    // Kubernetes publishes a volume of one node elsewhere only once it is unpublished.
    if ([...known.maybeAt].some((machine) => machine !== node_id) && this.#random.chance(0.8)) return;
    const wasElsewhere = known.at !== undefined && known.at !== node_id;
    known.maybeAt.add(node_id);
    const answer = await this.#call((controller) =>
      controller.ControllerPublishVolume({ volume_id, node_id, volume_capability: capability }),
    );
    if (answer === undefined) return;
    assert.ok(!wasElsewhere, `${known.name} is at ${known.at}, and was published to ${node_id}`);
    known.at = node_id;
    this.#requireAt(known);
  }

  async #unpublish(known: Known, node_id: string): Promise<void> {
    const { volumeId: volume_id = '' } = known;
    if (known.at === node_id) known.at = undefined;
    const answer = await this.#call((controller) => controller.ControllerUnpublishVolume({ volume_id, node_id }));
    if (answer === undefined) {
      known.maybeAt.add(node_id);
      return;
    }
    known.maybeAt.delete(node_id);
    const [disk] = this.#disksOf(known);
    const isThere = disk?.attachment?.instance === node_id && disk.attachment.status !== 'detaching';
    assert.ok(!isThere, `${known.name} was unpublished from ${node_id}, and is attached there`);
    this.#requireAt(known);
  }

  #requireAt(known: Known): void {
    if (known.at === undefined) return;
    const [disk] = this.#disksOf(known);
    assert.deepEqual([disk?.attachment?.instance, disk?.attachment?.status], [known.at, 'attached'], known.name);
  }

  async #end(known: Known): Promise<void> {
    const { volumeId: volume_id = '' } = known;
    while (known.maybeAt.size > 0) for (const machine of [...known.maybeAt]) await this.#unpublish(known, machine);
    while ((await this.#call((controller) => controller.DeleteVolume({ volume_id }))) === undefined);
    assert.deepEqual(this.#disksOf(known), [], `${known.name} was deleted`);
  }

  #disksOf({ volumeId }: Known): FakeVolume[] {
    return [...this.#fake.volumes.values()].filter(({ tags }) => tags[this.#fake.volumeLabel] === volumeId);
  }
}

export function randomTest(cloud: TestCloud): void {
  test(`${operations} operations on two machines, with kills and lost answers (${cloud.kind})`, async (t) => {
    t.diagnostic(`HOLDFAST_TEST_SEED=${seed} repeats this run`);
    await repeatable(seed, async () => {
      const random = new SeededRandom(seed);
      using scratch = new Scratch('cloud-random');
      const chances = random.fork();
      await using fake = await cloud.start(() => chances.next());
      for (const machine of cloud.machines) fake.instance(machine);
      fake.troubles = {
        lostAnswers: 0.03,
        droppedRequests: 0.02,
        throttled: 0.05,
        failed: 0.03,
        lateMs: 100,
        workMs: 20,
      };
      await using home = new Home(cloud, scratch, fake.url);
      const orchestrator = new Orchestrator(cloud, fake, home, random);
      await Promise.all(Array.from({ length: workers }, (_, worker) => orchestrator.live(worker)));
      await fake.settled();
      assert.deepEqual([...fake.volumes.values()], []);
      t.diagnostic(`${orchestrator.done} operations, ${home.kills} kills, ${fake.calls.length} requests`);
    });
  });
}
