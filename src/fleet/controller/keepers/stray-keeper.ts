import type { Logger } from 'pino';
import { encode, type Method, methodsOf } from '../../../csi/contract.ts';
import type { RecordedVolumes } from '../../kubernetes/persistent-volumes.ts';
import { fateOf, type NamedVolume, type StrayView, straysIn } from '../../routing/strays.ts';
import { strayTrashed } from '../events.ts';
import type { Sessions } from '../sessions.ts';

export interface StrayKeeperOptions {
  readonly view: StrayView;
  readonly sessions: Sessions;
  readonly log: Logger;
  readonly recorded: () => Promise<RecordedVolumes>;
  readonly now?: () => number;
}

/** Time for which a volume must look like a stray. */
export const strayDelayMs = 15 * 60_000;

/** Time for which it can be restored. The trash gives its space to any volume that needs it, so this costs nothing. */
const undelete = '7d';

const callMs = 60_000;

interface Suspect {
  readonly stray: NamedVolume;
  /** The volume that the PersistentVolume with this name stood for. */
  readonly other: NamedVolume;
  readonly sinceMs: number;
}

/** Puts volumes into the trash that an earlier try left on a node which the claim has left since. */
export class StrayKeeper {
  readonly #options: StrayKeeperOptions;
  readonly #now: () => number;
  /** Suspects by id, with the time since when. */
  readonly #since = new Map<string, Suspect>();
  /** Handled volumes: one that was restored later belongs to a user. */
  readonly #done = new Set<string>();

  constructor(options: StrayKeeperOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
  }

  /** Searches once. The next look retries work that cannot be done now. @throws Unavailable */
  async look(): Promise<void> {
    const { recorded, view } = this.#options;
    if (view.namesakes.length === 0 && this.#since.size === 0) return;
    const volumes = await recorded();
    for (const stray of straysIn(view, volumes)) {
      if (this.#done.has(stray.id) || this.#since.has(stray.id)) continue;
      const other = view.namesakes.find(({ id }) => id === volumes.idOf(stray.name));
      if (other !== undefined) this.#since.set(stray.id, { stray, other, sinceMs: this.#now() });
    }
    for (const [id, { other, sinceMs, stray }] of this.#since) {
      const fate = fateOf(view, volumes, stray, other);
      if (fate === 'none') {
        // The other replica may have been faster.
        this.#since.delete(id);
        this.#done.add(id);
      } else if (fate === 'stray' && this.#now() - sinceMs >= strayDelayMs) {
        await this.#trash(stray, other.id);
      }
    }
  }

  /** Each step may be done twice, even by two replicas. */
  async #trash({ id, node }: NamedVolume, recordedId: string): Promise<void> {
    const { log, sessions } = this.#options;
    const call = async (name: string, request: object) => {
      const { path, requestType } = methodOf(name);
      const deadline = new Date(Date.now() + callMs);
      await sessions.get(node).calls.call({ method: path, request: encode(requestType, request), deadline });
    };
    try {
      await call('ControllerModifyVolume', { volume_id: id, mutable_parameters: { undelete } });
      // A node does not delete a volume that is in use.
      await call('DeleteVolume', { volume_id: id });
    } catch (error) {
      const reason = error instanceof Error ? error.message : 'unknown';
      log.warn({ volume_id: id, node, reason }, 'cannot remove a volume left by an earlier attempt yet');
      return;
    }
    this.#since.delete(id);
    this.#done.add(id);
    strayTrashed.publish({ node });
    log.warn({ volume_id: id, node, recorded: recordedId }, 'put a volume left by an earlier attempt into the trash');
  }
}

const methods = new Map(methodsOf('csi.v1.Controller').map((method) => [method.name, method]));

function methodOf(name: string): Method {
  const method = methods.get(name);
  if (method === undefined) throw new Error(`the contract has no ${name}`);
  return method;
}
