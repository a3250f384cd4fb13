import { type Handler, wrapHandlers } from '../csi/handler.ts';

/**
 * Holds calls back until it is opened. A refused client would come again only after a pause, which for the kubelet grows
 * to two minutes, and the pools are open in a moment.
 */
export class StartupGate {
  #open = (): void => undefined;
  readonly #opened = new Promise<void>((resolve) => {
    this.#open = resolve;
  });

  open(): void {
    this.#open();
  }

  /** The same handlers; their calls wait for the gate. */
  guard<H extends object>(handlers: H): H {
    return wrapHandlers(handlers, (handler: Handler<never, object>) => this.#guarded(handler));
  }

  #guarded(handler: Handler<never, object>): Handler<never, object> {
    return async (request, context) => {
      await this.#opened;
      return handler(request, context);
    };
  }
}
