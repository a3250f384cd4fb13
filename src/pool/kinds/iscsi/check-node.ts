import { readFile } from 'node:fs/promises';
import { IscsiError, iscsiVersion } from '../../../command/iscsiadm.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { ignoreMissing } from '../../../kernel/call/errno.ts';
import { type Finding, fail, ok } from '../../sight.ts';
import { iscsiRunner, missingProgram } from './runner.ts';

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
    const path = `/proc/${isOwn ? 'self' : '1'}/net/unix`;
    const sockets = (await queue.run(() => readFile(path, 'utf8')).catch(ignoreMissing)) ?? '';
    if (sockets.split('\n').some((line) => line.endsWith(` ${socketName}`))) return [ok(check, detail)];
    return [fail(check, `${detail}; iscsid does not run`, 'Start it: systemctl enable --now iscsid.')];
  } catch (error) {
    if (!(error instanceof IscsiError)) throw error;
    return [fail(check, error.message, sentence(missingProgram))];
  }
}

function sentence(words: string): string {
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}.`;
}
