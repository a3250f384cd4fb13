import type { IscsiRunner } from '../../../command/iscsiadm.ts';
import { askMultipathd, type MultipathRunner } from '../../../command/multipathd.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { readIfThere } from '../../../kernel/file/file.ts';
import { hostProgram, intoHost, isContained } from '../../host-program.ts';

const namesOf = (program: string) => ['/usr/sbin', '/sbin', '/usr/bin'].map((directory) => `${directory}/${program}`);

/**
 * The host's open-iscsi, in its mount and network namespaces: iscsiadm and iscsid must be of one version, and iscsid
 * listens on a socket of the host's network. It lives longer than this driver, as the sessions must.
 * @returns undefined: the host has none
 */
export async function iscsiRunner(queue: DiskQueue): Promise<IscsiRunner | undefined> {
  if (!(await isContained(queue))) return { before: [] };
  if ((await hostProgram(queue, namesOf('iscsiadm'))) === undefined) return undefined;
  return { before: intoHost(['mnt', 'net', 'ipc', 'uts']) };
}

export const missingProgram =
  'this node has no open-iscsi: install it there (Debian, Ubuntu: open-iscsi; Fedora, RHEL, SUSE: iscsi-initiator-utils, open-iscsi) and let its iscsid run. In a container the driver must see the processes of the node (hostPID: true)';

/** Sockets of multipathd; the second one came with version 0.11. systemd may listen in its place, and starts it. */
const multipathSockets = ['@/org/kernel/linux/storage/multipathd', '/run/multipathd.socket'];

/** The host's multipathd, if it runs. @returns undefined: it does not */
export async function multipathRunner(queue: DiskQueue): Promise<MultipathRunner | undefined> {
  if (!(await isListening(queue, multipathSockets))) return undefined;
  if (!(await isContained(queue))) return { before: [] };
  if ((await hostProgram(queue, namesOf('multipathd'))) === undefined) return undefined;
  return { before: intoHost(['mnt', 'net', 'ipc', 'uts']) };
}

/** A condition waits for the answer, and has 3 s. */
const answerWithinMs = 1_500;

/** Answers if multipathd works. Where systemd listens in its place, the question starts it. */
export async function isMultipathdAnswering(queue: DiskQueue): Promise<boolean> {
  const runner = await multipathRunner(queue);
  return runner !== undefined && (await askMultipathd(runner, ['show', 'daemon'], answerWithinMs)) !== undefined;
}

/** Answers if a program of the host listens on one of these unix sockets; `@` stands for an abstract one. */
export async function isListening(queue: DiskQueue, sockets: readonly string[]): Promise<boolean> {
  const path = `/proc/${(await isContained(queue)) ? '1' : 'self'}/net/unix`;
  const lines = ((await readIfThere(queue, path)) ?? '').split('\n');
  return lines.some((line) => sockets.some((socket) => line.endsWith(` ${socket}`)));
}
