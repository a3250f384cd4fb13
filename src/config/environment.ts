import { isIP } from 'node:net';
import { isAbsolute, normalize } from 'node:path';
import { didYouMean, nearest } from '../settings/nearest.ts';
import { parseDuration } from '../volume/duration.ts';
import { InvalidArgument } from '../volume/errors.ts';
import {
  type CrashPoint,
  cloudStepNames,
  firstEncryptionStepNames,
  glusterStepNames,
  moveStepNames,
  programStepNames,
  stepNames,
  targetStepNames,
  volumeNoteStepNames,
} from '../volume/step.ts';

/** Every variable that configures the driver; none of ours begins with CSI_, which is reserved (O03). */
const variableNames = [
  'CSI_ENDPOINT',
  'HOLDFAST_ADMIN_SOCKET',
  'HOLDFAST_API_SERVER',
  'HOLDFAST_ATTACH',
  'HOLDFAST_CLOUD',
  'HOLDFAST_CONFIG',
  'HOLDFAST_CONTROLLER',
  'HOLDFAST_CONTROLLER_CA',
  'HOLDFAST_CONTROLLER_SECRET',
  'HOLDFAST_CONTROLLER_TOKEN',
  'HOLDFAST_DATA',
  'HOLDFAST_DRIVER_NAME',
  'HOLDFAST_EVENTS_AFTER',
  'HOLDFAST_HTTP_ADDRESS',
  'HOLDFAST_KUBELET_DIR',
  'HOLDFAST_LINK_ADDRESS',
  'HOLDFAST_LOG_LEVEL',
  'HOLDFAST_MOVE_ADDRESS',
  'HOLDFAST_MOVE_SNAPSHOTS',
  'HOLDFAST_NODE_ACCOUNT',
  'HOLDFAST_NODE_ID',
  'HOLDFAST_REGISTRATION_SOCKET',
  'HOLDFAST_RUN',
  'HOLDFAST_SERVICE_ACCOUNT_DIR',
  'HOLDFAST_SIDE',
  'HOLDFAST_SEND_COPIES',
  'HOLDFAST_TAINT_QUARANTINE',
  'HOLDFAST_TARGET_ROOTS',
  'HOLDFAST_TEST_CRASH_AT',
  'HOLDFAST_TEST_DISK_LINKS',
  'HOLDFAST_VIEW_ADDRESS',
] as const;

export type VariableName =
  | (typeof variableNames)[number]
  | 'KUBERNETES_SERVICE_HOST'
  | 'KUBERNETES_SERVICE_PORT'
  | 'PATH';

/** sun_path of unix(7) without its final zero. */
const maximumSocketPathBytes = 107;

/** The address of a TCP server. */
export interface HttpAddress {
  /** An IP address; undefined: all addresses of the machine. */
  readonly host: string | undefined;
  /** 0: any free one. */
  readonly port: number;
}

/** `:9808`, `127.0.0.1:9808`, `[::1]:9808`. */
const addressPattern = /^(?:(?<v4>[0-9.]+)|\[(?<v6>[0-9A-Fa-f:.]+)\])?:(?<port>[0-9]{1,5})$/;

/** `controller.holdfast:9443`, `10.0.0.1:9443`, `[fd00::1]:9443`. */
const hostPattern =
  /^(?:(?<host>[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?)|\[(?<v6>[0-9A-Fa-f:]+)\]):(?<port>[0-9]{1,5})$/;

/** Reads variables one by one and collects the problems. An empty variable counts as not set. */
export class EnvironmentReader {
  readonly problems: string[] = [];
  readonly #environment: Readonly<Record<string, string | undefined>>;

  constructor(environment: Readonly<Record<string, string | undefined>>) {
    this.#environment = environment;
  }

  /** Kubernetes sets variables such as HOLDFAST_SERVICE_HOST automatically, so only near misses are refused. */
  refuseMisspelled(): void {
    for (const name of Object.keys(this.#environment)) {
      if (!name.startsWith('HOLDFAST_') || variableNames.some((known) => known === name)) continue;
      const meant = nearest(name, variableNames);
      if (meant !== undefined) this.problems.push(`${name} is not a known variable: did you mean ${meant}?`);
    }
  }

  text(name: VariableName): string | undefined {
    const value = this.#environment[name];
    return value === '' ? undefined : value;
  }

  matching(name: VariableName, fallback: string, rule: { fits: (text: string) => boolean; wants: string }): string {
    const given = this.text(name);
    const value = given ?? fallback;
    if (!rule.fits(value)) {
      const origin = given === undefined ? ' (the default: set another)' : '';
      this.problems.push(`${name}: '${value}'${origin} must be ${rule.wants}`);
    }
    return value;
  }

  oneOf<T extends string>(name: VariableName, allowed: readonly T[], fallback: T): T {
    const value = this.text(name);
    const found = allowed.find((candidate) => candidate === value);
    if (value !== undefined && found === undefined) {
      this.problems.push(`${name}: '${value}' must be one of ${allowed.join(', ')}${didYouMean(value, allowed)}`);
    }
    return found ?? fallback;
  }

  path(name: VariableName, fallback: string): string;
  path(name: VariableName, fallback: undefined): string | undefined;
  path(name: VariableName, fallback: string | undefined): string | undefined {
    const value = this.text(name);
    return value === undefined ? fallback : this.#absolute(name, value);
  }

  paths(name: VariableName): string[] {
    const entries = (this.text(name) ?? '').split(':').filter((entry) => entry !== '');
    return entries.map((entry) => this.#absolute(name, entry));
  }

  socketPath(name: VariableName, fallback: string): string;
  socketPath(name: VariableName, fallback: undefined): string | undefined;
  socketPath(name: VariableName, fallback: string | undefined): string | undefined {
    const value = this.text(name) ?? fallback;
    return value === undefined ? undefined : this.#socket(name, value);
  }

  /** O01: a unix socket, written as a URL with an absolute path. */
  endpoint(name: VariableName): string | undefined {
    const value = this.text(name);
    if (value === undefined) return undefined;
    if (!value.startsWith('unix:///')) {
      this.problems.push(`${name}: '${value}' must be a unix socket, such as unix:///run/holdfast/csi.sock`);
      return undefined;
    }
    return this.#socket(name, value.slice('unix://'.length));
  }

  /** Parses a duration such as `5m`, greater than 0. */
  durationMs(name: VariableName): number | undefined {
    const value = this.text(name);
    if (value === undefined) return undefined;
    try {
      const seconds = parseDuration(value);
      if (seconds > 0) return seconds * 1000;
    } catch (error) {
      if (!(error instanceof InvalidArgument)) throw error;
    }
    this.problems.push(`${name}: '${value}' must be a duration, such as 5m`);
    return undefined;
  }

  httpAddress(name: VariableName): HttpAddress | undefined {
    const value = this.text(name);
    if (value === undefined) return undefined;
    const { v4, v6, port } = addressPattern.exec(value)?.groups ?? {};
    const isHost = (v4 === undefined || isIP(v4) === 4) && (v6 === undefined || isIP(v6) === 6);
    if (isHost && port !== undefined && Number(port) <= 65535) return { host: v4 ?? v6, port: Number(port) };
    this.problems.push(`${name}: '${value}' must be a port, such as :9808, or an IP address and a port`);
    return undefined;
  }

  /** Parses `controller.holdfast:9443`, or several with commas between. */
  hosts(name: VariableName): { readonly host: string; readonly port: number }[] {
    const entries = (this.text(name) ?? '').split(',').map((entry) => entry.trim());
    return entries
      .filter((entry) => entry !== '')
      .flatMap((entry) => {
        const { host, port, v6 } = hostPattern.exec(entry)?.groups ?? {};
        const place = v6 ?? host;
        if (place !== undefined && port !== undefined && Number(port) > 0 && Number(port) <= 65535) {
          return [{ host: place, port: Number(port) }];
        }
        this.problems.push(
          `${name}: '${entry}' must be a name or an IP address, and a port, such as holdfast-controller:9443`,
        );
        return [];
      });
  }

  url(name: VariableName, fallback: string | undefined): URL | undefined {
    const text = this.text(name) ?? fallback;
    if (text === undefined) return undefined;
    if (URL.canParse(text) && text.startsWith('https://')) return new URL(text);
    this.problems.push(`${name}: '${text}' must be a URL that begins with https://`);
    return undefined;
  }

  crashPoint(name: VariableName): CrashPoint | undefined {
    const value = this.text(name);
    if (value === undefined) return undefined;
    const [when, stepName, pass = '1', ...rest] = value.split(' ');
    const names = [
      ...stepNames,
      ...volumeNoteStepNames,
      ...moveStepNames,
      ...targetStepNames,
      ...firstEncryptionStepNames,
      ...cloudStepNames,
      ...programStepNames,
      ...glusterStepNames,
    ];
    const step = names.find((known) => known === stepName);
    const isWhole = /^[1-9][0-9]?$/.test(pass) && rest.length === 0;
    if ((when === 'before' || when === 'after') && step !== undefined && isWhole) {
      return pass === '1' ? { when, step } : { when, step, pass: Number(pass) };
    }
    this.problems.push(
      `${name}: '${value}' must be 'before' or 'after', one of ${stepNames.join(', ')}, and perhaps which pass of it`,
    );
    return undefined;
  }

  #socket(name: VariableName, path: string): string {
    const absolute = this.#absolute(name, path);
    if (!absolute.endsWith('.sock')) this.problems.push(`${name}: '${path}' must end in .sock`);
    if (Buffer.byteLength(absolute) > maximumSocketPathBytes) {
      this.problems.push(`${name}: a socket's path has at most ${maximumSocketPathBytes} bytes, not '${path}'`);
    }
    return absolute;
  }

  #absolute(name: VariableName, path: string): string {
    const clean = normalize(path).replace(/(?<=.)\/+$/, '');
    if (!isAbsolute(clean)) this.problems.push(`${name}: '${path}' must be an absolute path`);
    else if (clean === '/') this.problems.push(`${name}: '/' is too wide: name a directory below it`);
    return clean;
  }
}
