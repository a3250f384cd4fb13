import type { Logger } from 'pino';
import { encode, type Method, methodsOf } from '../../csi/contract.ts';
import { fateOf, type NamedVolume, type RecordedVolumes, type StrayView, straysIn } from '../routing/strays.ts';
import { strayTrashed } from './events.ts';
import type { Sessions } from './sessions.ts';

export interface StrayKeeperOptions {
  readonly view: StrayView;
  readonly sessions: Sessions;
  readonly log: Logger;
  readonly recorded: () => Promise<RecordedVolumes>;
  readonly now?: () => number;
}

/** A volume has to look like a stray for so long. */
export const strayDelayMs = 15 * 60_000;

/** How long it can be brought back. The trash gives its space to whoever needs it, so this costs nobody anything. */
const undelete = '7d';

const callMs = 60_000;

interface Suspect {
  readonly stray: NamedVolume;
  /** That which a PersistentVolume of the name stood for. */
  readonly other: NamedVolume;
  readonly sinceMs: number;
}

/** Puts volumes into the trash that a first try left on a node which its claim has left since. */
export class StrayKeeper {
  readonly #options: StrayKeeperOptions;
  readonly #now: () => number;
  /** Since when each looks like one, by its id. */
  readonly #since = new Map<string, Suspect>();
  /** What was brought back after that is somebody's. */
  readonly #done = new Set<string>();

  constructor(options: StrayKeeperOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
  }

  /** Looks once. What cannot be done now, the next look does. @throws Unavailable */
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
        // The other replica may have been quicker.
        this.#since.delete(id);
        this.#done.add(id);
      } else if (fate === 'stray' && this.#now() - sinceMs >= strayDelayMs) {
        await this.#trash(stray, other.id);
      }
    }
  }

  /** Each step may be done twice, by two replicas too. */
  async #trash({ id, node }: NamedVolume, recordedId: string): Promise<void> {
    const { log, sessions } = this.#options;
    const call = async (name: string, request: object) => {
      const { path, requestType } = methodOf(name);
      const deadline = new Date(Date.now() + callMs);
      await sessions.get(node).calls.call({ method: path, request: encode(requestType, request), deadline });
    };
    try {
      await call('ControllerModifyVolume', { volume_id: id, mutable_parameters: { undelete } });
      // A volume in use is not deleted by its node.
      await call('DeleteVolume', { volume_id: id });
    } catch (error) {
      const reason = error instanceof Error ? error.message : 'unknown';
      log.warn({ volume_id: id, node, reason }, 'a volume that a first try left behind stays for now');
      return;
    }
    this.#since.delete(id);
    this.#done.add(id);
    strayTrashed.publish({ node });
    log.warn({ volume_id: id, node, recorded: recordedId }, 'a volume that a first try left behind is in the trash');
  }
}

const methods = new Map(methodsOf('csi.v1.Controller').map((method) => [method.name, method]));

function methodOf(name: string): Method {
  const method = methods.get(name);
  if (method === undefined) throw new Error(`the contract has no ${name}`);
  return method;
}
