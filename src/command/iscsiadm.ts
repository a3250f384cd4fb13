import { CommandError, type CommandResult, type RunOptions, run } from './run.ts';

/** The words before a program of open-iscsi: into the namespaces of the host, or none. */
export interface IscsiRunner {
  readonly before: readonly string[];
}

export interface Login {
  readonly iqn: string;
  readonly address: string;
  readonly port: string;
  /** The record of the node, as iscsiadm(8) stores it; it may have secrets. */
  readonly record: string;
}

/** A target that answers lets in or refuses within seconds; the record has a limit for one that does not. */
const timeoutMs = 60_000;

/** Exit code of a shell whose program is missing, and of iscsiadm for objects that do not exist (iscsi_err.h). */
const notFound = 127;
export const iscsiCodes = {
  timedOut: 8,
  exists: 15,
  refused: 19,
  noDaemon: 20,
  noObjects: 21,
  unauthorized: 24,
} as const;

/**
 * Logs in from a record that only this program sees: its database lies in memory, in a mount namespace that ends with it. A
 * password is in no argument and in no file of the node, and records of the host with the same name are neither read nor
 * changed. iscsid gets the whole record from iscsiadm.
 */
const script = `set -eu
umask 077
iqn=$1 entry=$2 portal=$3
record=$(cat)
for root in /etc/iscsi /var/lib/iscsi; do
  [ -d "$root" ] || continue
  mkdir -p "$root/nodes"
  mount -t tmpfs -o mode=0700,size=1m holdfast "$root/nodes"
  mkdir "$root/nodes/$iqn"
  printf '%s\\n' "$record" >"$root/nodes/$iqn/$entry"
done
unset record
exec iscsiadm -m node -T "$iqn" -p "$portal" --login
`;

/** @throws IscsiError */
export async function iscsiLogin({ before }: IscsiRunner, { address, iqn, port, record }: Login): Promise<void> {
  const portal = address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;
  await iscsi(
    [...before, 'unshare', '--mount', '--propagation', 'private', 'sh', '-c', script],
    ['sh', iqn, `${address},${port}`, portal],
    { input: record },
  );
}

/** Ends a session; one that is gone is fine. Returns when its devices are gone. @throws IscsiError */
export async function iscsiLogout({ before }: IscsiRunner, sessionId: number): Promise<void> {
  const words = [...before, 'sh', '-c', 'exec iscsiadm -m session -r "$1" --logout'];
  await iscsi(words, ['sh', String(sessionId)], { accept: [0, iscsiCodes.noObjects] });
}

/** `2.1.8`. @throws IscsiError */
export async function iscsiVersion({ before }: IscsiRunner): Promise<string> {
  const { stdout } = await iscsi([...before, 'sh', '-c', 'exec iscsiadm --version'], [], {});
  return stdout.trim().split(' ').at(-1) ?? '';
}

/** A program of open-iscsi failed. The message has no word of its output but its own name for the error. */
export class IscsiError extends Error {
  /** undefined: it took too long, or could not be started. */
  readonly code: number | undefined;
  /** open-iscsi is not installed where it was looked for. */
  readonly isMissing: boolean;

  constructor(message: string, code: number | undefined, isMissing: boolean) {
    super(message);
    this.name = 'IscsiError';
    this.code = code;
    this.isMissing = isMissing;
  }
}

/** Directories of Debian and of others: in the driver's container PATH is that of the image. */
const environment = { PATH: '/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin' };

async function iscsi(
  words: readonly string[],
  args: readonly string[],
  options: Pick<RunOptions, 'accept' | 'input'>,
): Promise<CommandResult> {
  const [program = '', ...rest] = [...words, ...args];
  try {
    return await run(program, rest, { ...options, environment, timeoutMs });
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    throw new IscsiError(reasonIn(error), error.exitCode, error.exitCode === notFound);
  }
}

/** iscsiadm's name for the error: `initiator reported error (24 - iSCSI login failed due to authorization failure)`. */
function reasonIn({ exitCode, stderr }: CommandError): string {
  if (exitCode === undefined) return `open-iscsi did not end within ${timeoutMs / 1000} s, or could not be started`;
  if (exitCode === notFound) return 'there is no iscsiadm';
  const [, reason] = /\(([0-9]+ - [^)]{1,80})\)/.exec(stderr) ?? [];
  return reason === undefined ? `iscsiadm ended with ${exitCode}` : `iscsiadm: ${reason}`;
}
