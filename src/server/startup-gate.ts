import { type Handler, wrapHandlers } from '../csi/handler.ts';

/**
 * Holds calls back until it is opened. A refused caller comes again after a pause that grows each time, the kubelet's
 * to two minutes, so a short wait is better.
 */
export class StartupGate {
  #open = (): void => undefined;
  readonly #opened = new Promise<void>((resolve) => {
    this.#open = resolve;
  });

  open(): void {
    this.#open();
  }

  /** Makes the calls of these handlers wait for the gate. */
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
