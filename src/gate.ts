import type { Handler } from './csi/handler.ts';

/**
 * Lets no call through before it is opened. Whoever is refused comes again after a pause that grows each time, the
 * kubelet's to two minutes: what is over in a moment is worth waiting for.
 */
export class Gate {
  #open = (): void => undefined;
  readonly #opened = new Promise<void>((resolve) => {
    this.#open = resolve;
  });

  open(): void {
    this.#open();
  }

  /** The same handlers, whose calls wait for the gate. */
  guard<H extends object>(handlers: H): H {
    const entries = Object.entries(handlers).map(([name, handler]) => [name, this.#guarded(handler)]);
    // Only functions go in and out, each for the same RPC.
    return Object.fromEntries(entries) as H;
  }

  #guarded(handler: Handler<never, object>): Handler<never, object> {
    return async (request, context) => {
      await this.#opened;
      return handler(request, context);
    };
  }
}
