import { Unavailable } from '../../../../volume/errors.ts';
import { type CloudPace, Polling } from '../../../cloud-disk/cloud.ts';
import { type GceOperation, operationSchema, pathIn } from './answers.ts';
import { type GceCall, type GceClient, GceRefusal } from './client.ts';

/** An operation goes on for longer than a call waits. */
export class StillBusy extends Unavailable {}

/** Changes of Compute Engine: each is an operation that goes on after its answer. */
export class GceOperations {
  readonly #client: GceClient;
  readonly #pace: CloudPace;

  constructor(client: GceClient, pace: CloudPace) {
    this.#client = client;
    this.#pace = pace;
  }

  /**
   * Begins a change and waits for its end.
   * @param isEnough a look that ends the wait before the operation does
   * @throws GceRefusal also if the operation fails later, StillBusy if it goes on for longer than a call waits
   */
  async run(call: GceCall, isEnough: () => Promise<boolean> = async () => false): Promise<void> {
    const { action } = call;
    let operation: GceOperation | undefined = await this.#client.call(operationSchema, call);
    const path = pathIn(operation.selfLink);
    const endMs = performance.now() + this.#pace.waitMs;
    const polling = new Polling(this.#pace);
    let wasShown = false;
    for (;;) {
      // It is forgotten some time after its end, and may be shown late.
      if ((operation === undefined && wasShown) || operation?.status === 'DONE') {
        const [error] = operation?.error?.errors ?? [];
        if (error === undefined) return;
        throw new GceRefusal(action, error.code, error.message);
      }
      if (await isEnough()) return;
      if (performance.now() >= endMs) throw new StillBusy(`Google is still busy with ${action}; try again.`);
      await polling.pause();
      operation = await this.#look(path);
      wasShown ||= operation !== undefined;
    }
  }

  async #look(path: string): Promise<GceOperation | undefined> {
    try {
      return await this.#client.call(operationSchema, { action: 'operations.get', method: 'GET', path });
    } catch (error) {
      if (error instanceof GceRefusal && error.reason === 'notfound') return undefined;
      throw error;
    }
  }
}
