import type { DriverClient } from '../support/client.ts';
import { CallError } from '../support/client.ts';

/** One call of a soak, as its caller saw it. */
export interface RecordedCall {
  readonly rpc: string;
  /** Since the soak began. */
  readonly endedMs: number;
  readonly durationMs: number;
  /** `OK`, or the code of the error. */
  readonly code: string;
}

/** Measures every call of the clients that it was given, from outside of the driver. */
export class Recorder {
  readonly calls: RecordedCall[] = [];
  #startedMs = performance.now();

  /** The soak begins now. */
  begin(): void {
    this.#startedMs = performance.now();
  }

  get elapsedMs(): number {
    return performance.now() - this.#startedMs;
  }

  /** The same client, whose calls are measured. */
  record(client: DriverClient): DriverClient {
    return {
      ...client,
      controller: this.#recordService(client.controller),
      node: this.#recordService(client.node),
      groupController: this.#recordService(client.groupController),
    };
  }

  #recordService<Service extends object>(service: Service): Service {
    const calls = Object.entries(service).map(([rpc, call]) => [
      rpc,
      (...args: readonly unknown[]) => this.#measure(rpc, () => call(...args)),
    ]);
    // The same names, and functions of the same types.
    return Object.fromEntries(calls) as Service;
  }

  async #measure<T>(rpc: string, call: () => Promise<T>): Promise<T> {
    const startedMs = this.elapsedMs;
    let code = 'OK';
    try {
      return await call();
    } catch (error) {
      code = error instanceof CallError ? error.code : 'other';
      throw error;
    } finally {
      const endedMs = this.elapsedMs;
      this.calls.push({ rpc, endedMs, durationMs: endedMs - startedMs, code });
    }
  }
}
