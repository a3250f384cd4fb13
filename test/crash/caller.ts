import { setTimeout as delay } from 'node:timers/promises';
import type { VolumeContent } from '../../src/volume/capability.ts';
import { CallError } from '../support/client.ts';
import { type CrashNode, NoDriver } from './crash-node.ts';
import type { SeededRandom } from './seeded-random.ts';
import { TestEphemeral } from './test-ephemeral.ts';
import { TestGroup, TestSnapshot } from './test-snapshot.ts';
import { TestVolume } from './test-volume.ts';

/** A call, and the one that takes it back. */
interface Move {
  readonly go: () => Promise<unknown>;
  readonly back?: () => Promise<unknown>;
}

/** What a caller has to bear with: no driver there, or another call at work on the same. */
const passing = ['UNAVAILABLE', 'ABORTED'];
const retryMs = 15;
/** How often a call that was interrupted is taken back before it is tried again. */
const regretProbability = 0.3;

const contents: readonly VolumeContent[] = [
  { type: 'mount', fsType: 'ext4' },
  { type: 'mount', fsType: 'ext4' },
  { type: 'mount', fsType: 'xfs' },
  { type: 'mount', fsType: 'btrfs' },
  { type: 'block' },
];

/**
 * Lives one volume's life after another, each on a volume of its own. A call that fails because the driver died is made
 * again, or taken back first. Anything else that a call answers than what it should, and any data that is not what was
 * written, is thrown.
 */
export class Caller {
  readonly #node: CrashNode;
  readonly #name: string;
  readonly #random: SeededRandom;
  lives = 0;
  interruptions = 0;

  constructor(node: CrashNode, name: string, random: SeededRandom) {
    this.#node = node;
    this.#name = name;
    this.#random = random;
  }

  /** Until told to stop; the life that is under way is lived to its end. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const name = `${this.#name}-${this.lives}`;
      const pool = this.#random.pick(this.#node.pools);
      const volume = new TestVolume(this.#node, name, this.#random.pick(contents), pool);
      try {
        if (this.#random.chance(0.2)) await this.#liveInline(new TestEphemeral(this.#node, name, pool));
        else await this.#live(volume);
      } catch (cause) {
        throw new Error(`${volume.describe()}: ${cause instanceof Error ? cause.message : cause}`, { cause });
      }
      this.lives++;
    }
  }

  async #live(volume: TestVolume): Promise<void> {
    const random = this.#random;
    const { publish, stage } = movesOf(volume);
    // A pool that copies does so only while nobody uses the volume.
    const snapshotsAt = random.pick(['never', 'never', 'rest', 'work'] as const);
    const isInUse = snapshotsAt === 'work' && volume.pool.name !== 'directory';
    await this.#use(volume);
    await volume.write();
    if (isInUse) await this.#snapshot(volume);
    else if (snapshotsAt === 'never' && random.chance(0.5)) await this.#expand(volume);
    await this.#look(volume);
    await this.#make(reverse(publish));
    if (random.chance(0.5)) await this.#lookReadonly(volume);
    await this.#make(reverse(stage));
    if (random.chance(0.25)) await this.#modify(volume);
    if (snapshotsAt !== 'never' && !isInUse) await this.#snapshot(volume);
    // Grown now, at the latest.
    await this.#use(volume);
    await this.#leave(volume);
  }

  /** A pod's own volume, filled from a repository. */
  async #liveInline(volume: TestEphemeral): Promise<void> {
    const publish = { go: () => volume.publish(), back: () => volume.unpublish() };
    await this.#make(publish);
    volume.check();
    await this.#make(reverse(publish));
    volume.checkGone();
  }

  /** Made, if it is not there, and shown; with its data. */
  async #use(volume: TestVolume): Promise<void> {
    const { create, publish, stage } = movesOf(volume);
    await this.#make(create);
    await this.#make(stage);
    await this.#make(publish);
    await volume.checkData();
  }

  /** What others ask all the time. */
  async #look(volume: TestVolume): Promise<void> {
    await this.#make({ go: () => volume.stats() });
    await this.#make({ go: () => this.#node.client.controller.ListVolumes({}) });
    await this.#make({
      go: () => this.#node.client.controller.GetCapacity({ parameters: { pool: volume.pool.name } }),
    });
  }

  async #lookReadonly(volume: TestVolume): Promise<void> {
    const publish = { go: () => volume.publish(true), back: () => volume.unpublish() };
    await this.#make(publish);
    await volume.checkData();
    await volume.checkReadonly();
    await this.#make(reverse(publish));
  }

  async #leave(volume: TestVolume): Promise<void> {
    const { publish, stage } = movesOf(volume);
    await this.#make(reverse(publish));
    await this.#make(reverse(stage));
    await this.#make({ go: () => volume.delete() });
  }

  /** All its blocks are taken, and given back. */
  async #modify(volume: TestVolume): Promise<void> {
    const thicken = {
      go: () => volume.modify({ provisioning: 'thick' }),
      back: () => volume.modify({ provisioning: 'thin' }),
    };
    await this.#make(thicken);
    await this.#make(reverse(thicken));
  }

  /** Cut alone or as a group of one, looked at through a volume made from it, and removed. */
  async #snapshot(volume: TestVolume): Promise<void> {
    const snapshot = this.#random.chance(0.3)
      ? new TestGroup(`${volume.name}-group`, [volume])
      : new TestSnapshot(volume);
    await this.#make({ go: () => snapshot.create(), back: () => snapshot.delete() });
    const copy = new TestVolume(this.#node, `${volume.name}-copy`, volume.content, volume.pool);
    copy.comesFrom(snapshot.origin);
    await this.#use(copy);
    await this.#leave(copy);
    await this.#make({ go: () => snapshot.delete() });
  }

  /** ext4 grows when it is staged next, wherever the driver may not grow it while it is mounted. */
  async #expand(volume: TestVolume): Promise<void> {
    const { content } = volume;
    const isExt4 = content.type === 'mount' && content.fsType === 'ext4';
    await this.#make({ go: () => (isExt4 ? volume.expandByController() : volume.expandOnNode()) });
    if (!isExt4) await volume.checkGrown();
    await volume.checkData();
  }

  async #make(move: Move): Promise<void> {
    while (!(await this.#try(move.go))) {
      this.interruptions++;
      if (move.back !== undefined && this.#random.chance(regretProbability)) await this.#try(move.back);
      await delay(retryMs);
    }
  }

  async #try(call: () => Promise<unknown>): Promise<boolean> {
    await this.#node.working();
    try {
      await call();
      return true;
    } catch (error) {
      if (error instanceof NoDriver) return false;
      if (error instanceof CallError && passing.includes(error.code)) return false;
      throw error;
    }
  }
}

function movesOf(volume: TestVolume) {
  return {
    // Once it has data it is never taken back.
    create: { go: () => volume.create(), ...(volume.checksum === undefined && { back: () => volume.delete() }) },
    stage: { go: () => volume.stage(), back: () => volume.unstage() },
    publish: { go: () => volume.publish(), back: () => volume.unpublish() },
  };
}

function reverse({ back, go }: Required<Move>): Required<Move> {
  return { go: back, back: go };
}
