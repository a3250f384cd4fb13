import { probe } from '../csi/probe.ts';
import type { Page } from './listener.ts';

/** Longer than any wait on a busy machine; callers should wait a little longer than this. */
const probeTimeoutMs = 4_000;

/** The socket that the process itself serves. Concurrent probes share one connection. */
export class OwnSocket {
  readonly path: string;
  #asking: ReturnType<typeof probe> | undefined;

  constructor(path: string) {
    this.path = path;
  }

  ask(): ReturnType<typeof probe> {
    this.#asking ??= probe(this.path, probeTimeoutMs).finally(() => {
      this.#asking = undefined;
    });
    return this.#asking;
  }
}

/** A page of these lines, for people. */
export function textPage(status: Page['status'], ...lines: readonly string[]): Page {
  return { status, contentType: 'text/plain; charset=utf-8', body: lines.map((line) => `${line}\n`).join('') };
}
