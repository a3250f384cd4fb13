import type { IscsiRunner } from '../../../command/iscsiadm.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { hostProgram, intoHost, isContained } from '../../host-program.ts';

const hostPrograms = ['/usr/sbin/iscsiadm', '/sbin/iscsiadm', '/usr/bin/iscsiadm'];

/**
 * The host's open-iscsi, in its mount and network namespaces: iscsiadm and iscsid must be of one version, and iscsid
 * listens on a socket of the host's network. It lives longer than this driver, as the sessions must.
 * @returns undefined: the host has none
 */
export async function iscsiRunner(queue: DiskQueue): Promise<IscsiRunner | undefined> {
  if (!(await isContained(queue))) return { before: [] };
  if ((await hostProgram(queue, hostPrograms)) === undefined) return undefined;
  return { before: intoHost(['mnt', 'net', 'ipc', 'uts']) };
}

export const missingProgram =
  'this node has no open-iscsi: install it there (Debian, Ubuntu: open-iscsi; Fedora, RHEL, SUSE: iscsi-initiator-utils, open-iscsi) and let its iscsid run. In a container the driver must see the processes of the node (hostPID: true)';
