import { CommandError, type CommandResult, type RunOptions, run } from './run.ts';

/** The words before a program of open-iscsi: into the namespaces of the host, or none. */
export interface IscsiRunner {
  readonly before: readonly string[];
}

export interface Login {
  /** The name of this side of the session. */
  readonly iface: string;
  readonly iqn: string;
  readonly address: string;
  readonly port: string;
  /** The record of the node, as iscsiadm(8) stores it; it may have secrets. */
  readonly record: string;
}

export interface Session {
  readonly iface: string;
  readonly id: number;
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
 * Runs iscsiadm with a database that only it sees: in memory, in a mount namespace that ends with it. A password is in no
 * argument and in no file of the node, and records of the host with the same name are neither read nor changed. iscsid gets
 * the whole record from iscsiadm. It wants to find the interface of each session among its files, also to end that. Both places
 * may be one, by a symbolic link: distributions have moved the database.
 */
const database = `set -eu
umask 077
iface=$1
shift
for root in /etc/iscsi /var/lib/iscsi; do
  [ -d "$root" ] || continue
  mkdir -p "$root/nodes" "$root/ifaces"
  mount -t tmpfs -o mode=0700,size=1m holdfast "$root/nodes"
  mount -t tmpfs -o mode=0700,size=1m holdfast "$root/ifaces"
  printf 'iface.iscsi_ifacename = %s\niface.transport_name = tcp\n' "$iface" >"$root/ifaces/$iface"
done
`;

const loginScript = `${database}iqn=$1 entry=$2 portal=$3
record=$(cat)
for root in /etc/iscsi /var/lib/iscsi; do
  [ -d "$root" ] || continue
  mkdir -p "$root/nodes/$iqn"
  printf '%s\n' "$record" >"$root/nodes/$iqn/$entry"
done
unset record
exec iscsiadm -m node -T "$iqn" -p "$portal" --login
`;

const logoutScript = `${database}exec iscsiadm -m session -r "$1" --logout
`;

const ownDatabase = ['unshare', '--mount', '--propagation', 'private', 'sh', '-c'] as const;

/** @throws IscsiError */
export async function iscsiLogin({ before }: IscsiRunner, { address, iface, iqn, port, record }: Login): Promise<void> {
  const portal = address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;
  const args = ['sh', iface, iqn, `${address},${port}`, portal];
  await iscsi([...before, ...ownDatabase, loginScript], args, { input: record });
}

/** Ends a session; one that is gone is fine. @throws IscsiError */
export async function iscsiLogout({ before }: IscsiRunner, { iface, id }: Session): Promise<void> {
  const args = ['sh', iface, String(id)];
  await iscsi([...before, ...ownDatabase, logoutScript], args, { accept: [0, iscsiCodes.noObjects] });
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
