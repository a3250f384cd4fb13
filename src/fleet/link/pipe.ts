/**
 * One end of a link, over any carrier: messages in both directions, each once and in order, until it ends. Messages
 * that were sent but not received when it ends are lost.
 */
export interface Pipe<Out, In> {
  send(message: Out): void;
  /** Called once: messages wait until then. */
  onMessage(listener: (message: In) => void): void;
  /** Calls the listener once, with the reason. */
  onEnd(listener: (reason: string) => void): void;
  end(reason: string): void;
}

/** The version of proto/fleet.proto that this code implements. */
export const protocolVersion = 1;

/** Interval of silence after which a side sends a beat. */
export const usualBeatMs = 5_000;

/** Number of missing beats after which the other side counts as dead. */
const maxMissedBeats = 3;

/** Sends beats, and notices when the other side sends none: a machine that lost its power closes no connection. */
export class Pulse implements Disposable {
  readonly #beatMs: number;
  readonly #timer: NodeJS.Timeout;
  #heardMs = performance.now();

  constructor(beatMs: number, options: { readonly beat: () => void; readonly isDead: (silentMs: number) => void }) {
    this.#beatMs = beatMs;
    this.#timer = setInterval(() => {
      const silentMs = performance.now() - this.#heardMs;
      if (silentMs > this.#beatMs * maxMissedBeats) options.isDead(Math.round(silentMs));
      else options.beat();
    }, beatMs);
    this.#timer.unref();
  }

  heard(): void {
    this.#heardMs = performance.now();
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}
