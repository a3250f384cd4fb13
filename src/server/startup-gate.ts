import { type Handler, wrapHandlers } from '../csi/handler.ts';

/**
 * Lets no call through before it is opened. Whoever is refused comes again after a pause that grows each time, the
 * kubelet's to two minutes: what is over in a moment is worth waiting for.
 */
export class StartupGate {
  #open = (): void => undefined;
  readonly #opened = new Promise<void>((resolve) => {
    this.#open = resolve;
  });

  open(): void {
    this.#open();
  }

  /** The same handlers, whose calls wait for the gate. */
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
