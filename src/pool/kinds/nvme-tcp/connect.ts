import { connectNvme, nvmeOptions, nvmeSubsystem } from '../../../kernel/block/nvme.ts';
import { NvmeWords } from '../../../kernel/block/nvme-words.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { errnoName, isErrno } from '../../../kernel/call/errno.ts';
import { FailedPrecondition, Unavailable } from '../../../volume/errors.ts';
import type { Secrets } from '../../../volume/secrets.ts';
import { step } from '../../../volume/step.ts';
import type { Portal } from '../../network-disk/portals.ts';
import { reachPortal } from '../../network-disk/reach-portal.ts';
import type { ConnectOptions } from '../../network-disk/target.ts';
import type { VolumeOnNode } from '../../node-side.ts';
import { type Connection, isSamePath } from './connections.ts';
import type { NvmeContext } from './context.ts';
import type { NvmeHost } from './host.ts';

interface ConnectNvmeOptions extends ConnectOptions<Connection> {
  readonly host: NvmeHost;
}

/** Makes the connections that are missing, one for each portal. @throws Unavailable if no portal can be used, FailedPrecondition */
export async function connectAll(
  { handle }: Pick<VolumeOnNode, 'handle'>,
  context: NvmeContext,
  options: ConnectNvmeOptions,
): Promise<void> {
  const keys = keysIn(options.secrets);
  await requireOptions(options.queue, handle, Object.keys(keys));
  const failures: string[] = [];
  for (const portal of context.portals) {
    const failure = await connectTo(context, portal, { ...options, keys });
    if (failure !== undefined) failures.push(failure);
  }
  const { controllers } = nvmeSubsystem(context.nqn);
  if (controllers.some(({ state }) => state === 'live')) return;
  // Connections of before: a mount would hang.
  const states = controllers.map(({ name, state }) => `${name} is ${state}`).join(', ');
  const reasons = failures.length > 0 ? failures : [`${context.nqn} does not answer (${states}): is the target up?`];
  throw new Unavailable(`volume ${handle}: ${reasons.join('; ')}.`);
}

/** @returns why it could not be connected */
async function connectTo(
  { nqn, options }: NvmeContext,
  portal: Portal,
  { host, keys, queue, state }: ConnectNvmeOptions & { readonly keys: Record<string, string> },
): Promise<string | undefined> {
  const { address, port } = portal;
  const connection: Connection = { traddr: address, trsvcid: port, hostNqn: host.nqn };
  // One of the host's own is used, and stays its own.
  if (nvmeSubsystem(nqn).controllers.some((each) => isSamePath(connection, each))) return undefined;
  const unreachable = await reachPortal(portal);
  if (unreachable !== undefined) return unreachable;
  const { notes } = state;
  const change = (connections: readonly Connection[]) => notes.write(queue, { ...notes.note, connections });
  const others = notes.note.connections.filter((each) => !isSameConnection(each, connection));
  // Before it is made: then a new connection is this driver's, even if this process dies now.
  await change([...others, connection]);
  using kernel = new NvmeWords();
  try {
    const line = { nqn, transport: 'tcp', traddr: address, trsvcid: port, hostnqn: host.nqn, hostid: host.id };
    const controller = await step('nvme/connect', () => connectNvme(queue, { ...line, ...options, ...keys }));
    await change([...others, { ...connection, controller }]);
    return undefined;
  } catch (error) {
    // A call that was given up may still connect.
    if (queue.closedFor !== undefined) throw error;
    await change(others);
    // Another program was faster.
    if (isErrno(error, 'EALREADY')) return undefined;
    return `${address}:${port} refuses a connection (${errnoName(error) ?? String(error)}): ${meaningOf(kernel.read())}`;
  }
}

function isSameConnection(a: Connection, b: Connection): boolean {
  return a.traddr === b.traddr && a.trsvcid === b.trsvcid && a.hostNqn === b.hostNqn;
}

/** Explains the kernel's words: the error number is the same for all. */
function meaningOf(words: readonly string[]): string {
  const said = words.length === 0 ? 'see dmesg' : `the kernel says "${words.join('; ').slice(0, 200)}"`;
  if (words.some((line) => line.includes('is not allowed, hostnqn'))) {
    return `the target does not let this host in: allow its host NQN there (${said})`;
  }
  if (words.some((line) => /Connect Invalid (SQE|Data) Parameter/i.test(line) && line.includes('subsysnqn'))) {
    return `the target has no such subsystem: correct the nqn (${said})`;
  }
  if (words.some((line) => /authentication/i.test(line))) {
    return `the target refuses the key of this host: set dhchapSecret in the Secret (${said})`;
  }
  return `check the nqn, the hosts that it allows (nvme-host.json) and the key (${said})`;
}

/**
 * Answers early if this node cannot connect. The kernel would write an option that it does not know into its log, and that
 * may be a key.
 */
async function requireOptions(queue: DiskQueue, handle: string, names: readonly string[]): Promise<void> {
  const known = await nvmeOptions(queue).catch((error: unknown) => {
    if (!isErrno(error, 'ENOENT', 'ENODEV', 'ENXIO')) throw error;
    throw new FailedPrecondition(
      `volume ${handle}: there is no /dev/nvme-fabrics: load the module (modprobe nvme-tcp); in a container, mount the host's /dev.`,
    );
  });
  const unknown = names.find((name) => !known.has(name));
  if (unknown === undefined) return;
  throw new FailedPrecondition(
    `volume ${handle}: this node's kernel has no in-band authentication (${unknown}; Linux 6.0, CONFIG_NVME_AUTH): use another kernel, or leave the key out on the target.`,
  );
}

/** In-band authentication: what the target knows this host by, and what the host knows the target by. */
function keysIn(secrets: Secrets | undefined): Record<string, string> {
  const host = secrets?.get('dhchapSecret');
  const target = secrets?.get('dhchapCtrlSecret');
  for (const key of [host, target]) {
    if (key !== undefined && !/^DHHC-1:[0-9]{2}:[A-Za-z0-9+/=]+:$/.test(key)) {
      throw new FailedPrecondition(
        'dhchapSecret or dhchapCtrlSecret is no key of the form DHHC-1:00:…: (nvme gen-dhchap-key).',
      );
    }
  }
  return { ...(host && { dhchap_secret: host }), ...(target && { dhchap_ctrl_secret: target }) };
}
