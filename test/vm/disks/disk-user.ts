import assert from 'node:assert/strict';
import { CallError } from '../../support/client.ts';
import { assertKeepsake, leaveKeepsake } from '../faults/keepsake.ts';
import type { GuestNode } from '../node/guest-node.ts';
import type { Content, GuestVolume } from '../node/guest-volume.ts';
import { newVolume } from '../node/life.ts';

const sizeBytes = 32n << 20n;

/** What is known of a volume: `making` and `going` had no answer yet. */
type State = 'absent' | 'making' | 'made' | 'kept' | 'going';

/** Has one volume after another, each a whole disk, and knows of each call whether it was answered before the power went. */
export class DiskUser {
  readonly #node: GuestNode;
  readonly #content: Content;
  #volume: GuestVolume | undefined;
  #state: State = 'absent';

  constructor(node: GuestNode, content: Content) {
    this.#node = node;
    this.#content = content;
  }

  /** Works until the power goes. @param count hears of each answer */
  async work(cut: AbortSignal, count: () => void): Promise<void> {
    while (!cut.aborted) {
      try {
        await this.#next();
        count();
      } catch (error) {
        if (cut.aborted) return;
        // The disk of the volume before is being wiped.
        if (!(error instanceof CallError && error.code === 'RESOURCE_EXHAUSTED')) throw error;
      }
    }
  }

  /** What was answered must be so; what was not may be so. @returns the volume that is its own now */
  settle(ids: ReadonlySet<string>): string | undefined {
    const isThere = this.#volume !== undefined && ids.has(this.#volume.id);
    if (this.#state === 'making') this.#state = isThere ? 'made' : 'absent';
    if (this.#state === 'going') this.#state = isThere ? 'kept' : 'absent';
    assert.equal(isThere, this.#state !== 'absent', `${this.#volume?.id} is ${this.#state}`);
    return isThere ? this.#volume?.id : undefined;
  }

  /** Takes its volume into use, with what was synced to it. */
  async check(): Promise<void> {
    const volume = this.#volume;
    if (volume === undefined || this.#state === 'absent') return;
    await volume.use();
    if (this.#state === 'kept') await assertKeepsake(this.#node, volume);
  }

  async #next(): Promise<void> {
    const volume = this.#volume;
    if (volume === undefined || this.#state === 'absent') {
      this.#volume = newVolume(this.#node, 'disks', this.#content);
      this.#state = 'making';
    }
    switch (this.#state) {
      case 'making':
        await this.#volume?.create(sizeBytes);
        this.#state = 'made';
        break;
      case 'made':
        await volume?.use();
        if (volume !== undefined) await leaveKeepsake(this.#node, volume);
        this.#state = 'kept';
        break;
      default:
        await volume?.leave();
        this.#state = 'going';
        await volume?.delete();
        this.#state = 'absent';
    }
  }
}
