import type { Logger } from 'pino';
import { type CallEnd, callBegan, callEnded } from './call-events.ts';
import type { Method } from './contract.ts';
import { redact } from './redact.ts';
import type { FailureStatus } from './status.ts';

/** Calls that the kubelet and the sidecars repeat all day: they are logged at debug level while all is well. */
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

/** Ids are at most this long in the contract; a request that breaks the limit does not fill the log. */
const longestIdCharacters = 128;

/** The log line of one call, and the news of it. */
export class CallLog {
  readonly #log: Logger;
  readonly #method: Method;
  readonly #startedMs = performance.now();
  readonly #fields: Record<string, string | number>;

  constructor(log: Logger, method: Method) {
    this.#log = log;
    this.#method = method;
    this.#fields = { rpc: method.name };
    callBegan.publish({ call: this, rpc: method.name });
  }

  /** Takes the volume id from the request. The request itself goes to the log at debug level only, redacted. */
  request(request: object): void {
    if ('volume_id' in request && typeof request.volume_id === 'string' && request.volume_id !== '') {
      this.note({ volume_id: request.volume_id.slice(0, longestIdCharacters) });
    }
    if (this.#log.isLevelEnabled('debug')) {
      this.#log.debug({ rpc: this.#method.name, request: redact(this.#method.requestType, request) }, 'request');
    }
  }

  note(fields: Readonly<Record<string, string | number>>): void {
    Object.assign(this.#fields, fields);
  }

  succeeded(clientGone: boolean): void {
    this.#log[routine.has(this.#method.name) ? 'debug' : 'info'](this.#end('OK', clientGone));
  }

  failed(failure: FailureStatus, clientGone: boolean): void {
    const isOurFault = failure.code === 'INTERNAL' || failure.code === 'DATA_LOSS';
    if (failure.stack !== undefined) this.note({ stack: failure.stack });
    this.#log[isOurFault ? 'error' : 'warn'](this.#end(failure.code, clientGone), failure.message);
  }

  /** A stream that its client did not want to the end. */
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
