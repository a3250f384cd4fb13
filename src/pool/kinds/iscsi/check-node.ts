import { IscsiError, iscsiVersion } from '../../../command/iscsiadm.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { type Finding, fail, ok } from '../../sight.ts';
import { iscsiRunner, isListening, missingProgram, multipathRunner } from './runner.ts';

/** The socket of iscsid, also if systemd listens in its place. It belongs to a network namespace. */
const socketName = '@ISCSIADM_ABSTRACT_NAMESPACE';
const check = 'iSCSI';

/** Checks open-iscsi and its daemon. */
export async function checkNode(queue: DiskQueue): Promise<Finding[]> {
  const runner = await iscsiRunner(queue);
  if (runner === undefined) return [fail(check, 'there is no iscsiadm', sentence(missingProgram))];
  try {
    const isOwn = runner.before.length === 0;
    const detail = `open-iscsi ${await iscsiVersion(runner)}${isOwn ? '' : ', of the host'}`;
    if (!(await isListening(queue, [socketName]))) {
      return [fail(check, `${detail}; iscsid does not run`, 'Start it: systemctl enable --now iscsid.')];
    }
    const hasMultipath = (await multipathRunner(queue)) !== undefined;
    return [ok(check, hasMultipath ? `${detail}; multipathd runs, for volumes with several portals` : detail)];
  } catch (error) {
    if (!(error instanceof IscsiError)) throw error;
    return [fail(check, error.message, sentence(missingProgram))];
  }
}

function sentence(words: string): string {
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}.`;
}
