import type { VolumeId } from '../../volume/id.ts';
import type { PeerMove } from '../peers.ts';
import type { MoveForgotten } from '../source.ts';

/** A node that may hear why it is not let in, and nothing else. */
interface Refused {
  readonly node: string;
  readonly expiresMs: number;
  readonly ended: MoveForgotten;
}

/** The controller brings both nodes together right after the refusal. */
const heardMs = 60_000;

/**
 * The moves that a node was asked to let in again, and knows nothing of: without that word their targets, which have them, would wait for
 * ever.
 */
export class Refusals {
  /** By the ids of the volume and of the move. */
  readonly #refused = new Map<string, Refused>();

  /** @returns the refusal, which the target hears from then on */
  refuse(move: PeerMove, ended: MoveForgotten): MoveForgotten {
    const nowMs = performance.now();
    for (const [key, { expiresMs }] of this.#refused) if (expiresMs < nowMs) this.#refused.delete(key);
    this.#refused.set(keyOf(move), { node: move.node, expiresMs: nowMs + heardMs, ended });
    return ended;
  }

  /** @returns the only node that may hear it; undefined: that move was not refused, or long ago */
  of(id: VolumeId, moveId: string): Pick<Refused, 'ended' | 'node'> | undefined {
    const refused = this.#refused.get(keyOf({ id, moveId }));
    if (refused === undefined || refused.expiresMs < performance.now()) return undefined;
    const { ended, node } = refused;
    return { ended, node };
  }
}

function keyOf({ id, moveId }: Pick<PeerMove, 'id' | 'moveId'>): string {
  return `${id} ${moveId}`;
}
