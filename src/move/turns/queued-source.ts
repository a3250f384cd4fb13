import type { Closed } from '../../pool/moves.ts';
import type { SnapshotId } from '../../volume/id.ts';
import type { Answer, Arrived, Fence, Request } from '../../volume/move/rule.ts';
import type { MoveSource, Reading, ReadRequest, SourcePlan, SourceSight } from '../source.ts';
import type { ReadTurns } from './read-turns.ts';

export interface QueuedSourceParts {
  readonly source: MoveSource;
  readonly moveId: string;
  /** Turns of all moves that read where this one does. */
  readonly turns: ReadTurns;
  readonly signal: AbortSignal;
}

const beatMs = 10_000;

/** A source that a move reads in its turn: many copies at once would take all memory, and each would be slow. */
export class QueuedSource implements MoveSource {
  readonly #parts: QueuedSourceParts;
  readonly #source: MoveSource;
  #beat: Disposable | undefined;
  /** Ends the turn of this move to read. It stays until the move has ended once its volume is fenced. */
  #turn: Disposable | undefined;
  #sight: SourceSight | undefined;
  #isFenced = false;
  #isQueued = false;

  constructor(parts: QueuedSourceParts) {
    this.#parts = parts;
    this.#source = parts.source;
  }

  get title(): string {
    return this.#source.title;
  }

  get node(): string | undefined {
    return this.#source.node;
  }

  /** It waits until few enough other moves read from there. */
  get isQueued(): boolean {
    return this.#isQueued;
  }

  async look(idleWithinMs?: number): Promise<SourceSight | undefined> {
    this.#sight = await this.#source.look(idleWithinMs);
    return this.#sight;
  }

  describe(): Promise<SourcePlan | undefined> {
    return this.#source.describe();
  }

  hasSnapshot(id: SnapshotId): Promise<boolean> {
    return this.#source.hasSnapshot(id);
  }

  async takeSnapshot(id: SnapshotId): Promise<void> {
    await this.#takeTurn(this.#isIdle);
    try {
      await this.#source.takeSnapshot(id);
    } catch (error) {
      this.#endTurn();
      throw error;
    }
  }

  removeSnapshot(id: SnapshotId): Promise<void> {
    return this.#source.removeSnapshot(id);
  }

  removeSnapshots(): Promise<void> {
    return this.#source.removeSnapshots();
  }

  async close(fence: Pick<Fence, 'fenceId' | 'moveId'>): Promise<Closed | undefined> {
    // A volume in use is asked again soon, and keeps no turn from the others.
    if (!this.#isMine && !this.#isIdle && this.#parts.turns.areTaken(true)) return undefined;
    await this.#takeTurn(true);
    try {
      const closed = await this.#source.close(fence);
      this.#isFenced = closed !== undefined;
      // The bytes that have come are still being written here, for any time.
      if (closed !== undefined) this.#beat ??= this.#beating();
      return closed;
    } finally {
      this.#endTurn();
    }
  }

  async read(request: ReadRequest): Promise<Reading> {
    await this.#takeTurn(request.of === undefined || this.#isIdle);
    try {
      const reading = await this.#source.read(request);
      const end = async () => {
        await reading[Symbol.asyncDispose]();
        this.#endTurn();
      };
      return { ...reading, [Symbol.asyncDispose]: end };
    } catch (error) {
      this.#endTurn();
      throw error;
    }
  }

  verified(): Promise<unknown> {
    return this.#source.verified();
  }

  open(): Promise<void> {
    return this.#source.open();
  }

  handOver(request: Request, commit: (answer: Answer) => Promise<void>): Promise<void> {
    return this.#source.handOver(request, commit);
  }

  settle(arrived: Arrived): Promise<void> {
    return this.#source.settle(arrived);
  }

  takeBack(word: number): Promise<void> {
    return this.#source.takeBack(word);
  }

  /** The move goes on no longer, or with another source. */
  end(): void {
    this.#beat?.[Symbol.dispose]();
    this.#isFenced = false;
    this.#endTurn();
  }

  /** No pod uses the volume, and one may wait for it. */
  get #isIdle(): boolean {
    return this.#sight?.isUsed === false;
  }

  /** The fence of this move stands, as a try before this one has left it. */
  get #isMine(): boolean {
    return this.#sight?.state.mark.fence?.moveId === this.#parts.moveId;
  }

  /** Another node gives up a target that is silent, and ends its fence. */
  #beating(): Disposable | undefined {
    if (this.node === undefined) return undefined;
    const timer = setInterval(() => void this.look().catch(() => undefined), beatMs).unref();
    return { [Symbol.dispose]: () => clearInterval(timer) };
  }

  async #takeTurn(isUrgent: boolean): Promise<void> {
    if (this.#turn !== undefined) return;
    const { signal, turns } = this.#parts;
    if (this.#isMine) {
      this.#turn = turns.takeAgain();
      return;
    }
    this.#isQueued = turns.areTaken(isUrgent);
    using _beat = this.#isQueued ? this.#beating() : undefined;
    try {
      this.#turn = await turns.take(isUrgent, signal);
    } finally {
      this.#isQueued = false;
    }
  }

  #endTurn(): void {
    if (this.#isFenced) return;
    this.#turn?.[Symbol.dispose]();
    this.#turn = undefined;
  }
}
