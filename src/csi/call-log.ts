import type { Logger } from 'pino';
import { type CallEnd, callBegan, callEnded } from './call-events.ts';
import type { Method } from './contract.ts';
import { redact } from './redact.ts';
import type { FailureStatus } from './status.ts';

/** Calls that the kubelet and the sidecars repeat all day. Successful ones are logged at debug level. */
const routine: ReadonlySet<string> = new Set([
  'Probe',
  'GetPluginInfo',
  'GetPluginCapabilities',
  'ControllerGetCapabilities',
  'GroupControllerGetCapabilities',
  'NodeGetCapabilities',
  'NodeGetInfo',
  'GetCapacity',
  'GetInfo',
]);

/** Maximum length of ids in the contract; a request that breaks the limit does not fill the log. */
const longestIdCharacters = 128;
const longestPathCharacters = 512;

/** Fields that name the subject of a call: an id, or the name of a new object. */
const names = ['volume_id', 'snapshot_id', 'group_snapshot_id', 'source_volume_id', 'name'];
/** Fields that log lines have in full; messages shorten them for their readers. */
const paths = ['staging_target_path', 'target_path', 'volume_path'];

/** The log line of one call, and its events. */
export class CallLog {
  readonly #log: Logger;
  readonly #method: Method;
  readonly #startedMs = performance.now();
  readonly #fields: Record<string, string | number>;
  #places: Readonly<Record<string, string>> = {};

  constructor(log: Logger, method: Method) {
    this.#log = log;
    this.#method = method;
    this.#fields = { rpc: method.name };
    callBegan.publish({ call: this, rpc: method.name });
  }

  /**
   * Takes the subject of the call from the request: the names for every line, the paths for lines about failures. The
   * request itself is logged at debug level only, redacted.
   */
  request(request: object): void {
    const values: Readonly<Record<string, unknown>> = { ...request };
    this.note(pick(values, names, longestIdCharacters));
    this.#places = pick(values, paths, longestPathCharacters);
    if (this.#log.isLevelEnabled('debug')) {
      this.#log.debug({ rpc: this.#method.name, request: redact(this.#method.requestType, request) }, 'request');
    }
  }

  note(fields: Readonly<Record<string, string | number>>): void {
    Object.assign(this.#fields, fields);
  }

  /** The volume that the call is about, for messages. */
  get subject(): string | undefined {
    const id = this.#fields['volume_id'];
    return id === undefined ? undefined : `volume ${id}`;
  }

  succeeded(clientGone: boolean): void {
    this.#log[routine.has(this.#method.name) ? 'debug' : 'info'](this.#end('OK', clientGone));
  }

  failed(failure: FailureStatus, clientGone: boolean): void {
    const isOurFault = failure.code === 'INTERNAL' || failure.code === 'DATA_LOSS';
    this.note(this.#places);
    if (failure.stack !== undefined) this.note({ stack: failure.stack });
    this.#log[isOurFault ? 'error' : 'warn'](this.#end(failure.code, clientGone), failure.message);
  }

  /** Logs a stream that its client ended early. */
  abandoned(): void {
    this.#log.info(this.#end('CANCELLED', true));
  }

  #end(code: CallEnd['code'], clientGone: boolean): Record<string, string | number> {
    const ms = performance.now() - this.#startedMs;
    callEnded.publish({ call: this, rpc: this.#method.name, code, ms });
    if (clientGone) this.note({ client: 'gone' });
    return { ...this.#fields, code, ms: Math.round(ms * 100) / 100 };
  }
}

function pick(values: Readonly<Record<string, unknown>>, keys: readonly string[], longestCharacters: number) {
  const picked: Record<string, string> = {};
  for (const key of keys) {
    const value = values[key];
    if (typeof value === 'string' && value !== '') picked[key] = value.slice(0, longestCharacters);
  }
  return picked;
}
