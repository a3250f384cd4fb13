import assert from 'node:assert/strict';
import { CallError } from '../../support/client.ts';
import { eventually } from '../../support/eventually.ts';
import type { GuestNode } from '../node/guest-node.ts';
import type { GuestVolume } from '../node/guest-volume.ts';
import { newVolume } from '../node/life.ts';
import { capacityBytes, conditionOf } from './pool-sight.ts';

/** For what the driver finds out by and by, on a busy machine. */
const patienceMs = 600_000;
const sizeBytes = 32n << 20n;

/** A pool whose disk is made sick, and the volumes that are used in it. */
export class SickPool {
  readonly #node: GuestNode;
  readonly #name: string;
  readonly #volumes: readonly GuestVolume[];

  constructor(node: GuestNode, name: string, volumes: readonly GuestVolume[]) {
    this.#node = node;
    this.#name = name;
    this.#volumes = volumes;
  }

  /** Waits until new volumes are refused in these words. No call before that may end in any other way but UNAVAILABLE. */
  async refuses(words: RegExp): Promise<void> {
    const volume = newVolume(this.#node, this.#name);
    await eventually(async () => {
      await assert.rejects(volume.create(sizeBytes), (error) => {
        assert.match(refusal(error), words);
        return true;
      });
    }, patienceMs);
  }

  /** All that callers are to see of a disk that is sick. */
  async assertInQuarantine(): Promise<void> {
    const [volume] = this.#volumes;
    assert.ok(volume !== undefined);
    await this.refuses(/in quarantine/);
    await assert.rejects(volume.snapshot('of-the-sick'), (error) => /in quarantine/.test(refusal(error)));
    await assert.rejects(volume.delete(), (error) => /in quarantine/.test(refusal(error)));
    assert.equal(await capacityBytes(this.#node, this.#name), 0n);
    for (const { id, targetPath } of this.#volumes) {
      assert.equal((await conditionOf(this.#node, id)).abnormal, true);
      const stats = await this.#node.client.node.NodeGetVolumeStats({ volume_id: id, volume_path: targetPath });
      assert.equal(stats.volume_condition?.abnormal, true);
    }
  }

  /** Waits until it has room again, and looks at the volumes: by then none of them is in a bad condition. */
  async recovers(): Promise<void> {
    await eventually(async () => assert.ok((await capacityBytes(this.#node, this.#name)) > 0n), patienceMs);
    for (const { id } of this.#volumes) {
      const { abnormal, message } = await conditionOf(this.#node, id);
      assert.equal(abnormal, false, message);
    }
  }
}

/** The words in which a call was refused, with the code that lets callers try again. */
function refusal(error: unknown): string {
  assert.ok(error instanceof CallError, `${error}`);
  assert.equal(error.code, 'UNAVAILABLE', error.message);
  return error.message;
}
