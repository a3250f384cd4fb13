/**
 * One end of a link, whatever carries it: messages in both directions, each once and in order, until it ends. What was
 * sent and not received when it ends is lost.
 */
export interface Pipe<Out, In> {
  send(message: Out): void;
  /** Called once: messages wait until then. */
  onMessage(listener: (message: In) => void): void;
  /** Heard once, with why. */
  onEnd(listener: (reason: string) => void): void;
  end(reason: string): void;
}

/** The version of proto/fleet.proto that is spoken here. */
export const protocolVersion = 1;

/** Who has sent nothing for so long sends a beat. */
export const usualBeatMs = 5_000;

/** Who has heard nothing for so many beats takes the other side for dead. */
const beatsOfPatience = 3;

/** Sends beats, and notices when the other side sends none: a machine that lost its power closes no connection. */
export class Pulse implements Disposable {
  readonly #beatMs: number;
  readonly #timer: NodeJS.Timeout;
  #heardMs = performance.now();

  constructor(beatMs: number, options: { readonly beat: () => void; readonly isDead: (silentMs: number) => void }) {
    this.#beatMs = beatMs;
    this.#timer = setInterval(() => {
      const silentMs = performance.now() - this.#heardMs;
      if (silentMs > this.#beatMs * beatsOfPatience) options.isDead(Math.round(silentMs));
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
