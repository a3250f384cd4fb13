import { constants } from 'node:os';
import { Descriptor } from '../call/descriptor.ts';
import { isErrno } from '../call/errno.ts';
import { invokeNow, type Lent, systemCall } from '../call/libc.ts';

const pidfdOpenCall = systemCall<readonly [number, number]>('pidfd_open', 434, ['int', 'uint']);
const pidfdSendSignalCall = systemCall<readonly [Lent, number, null, number]>('pidfd_send_signal', 424, [
  'int',
  'int',
  'void *',
  'uint',
]);

/**
 * Kills a process, and none that gets its number meanwhile (pidfd_open(2)).
 * @param isMeant is asked while the process is held: it may take its time
 */
export async function killProcess(pid: number, isMeant: () => Promise<boolean>): Promise<void> {
  try {
    await using held = new Descriptor(invokeNow(pidfdOpenCall, [pid, 0]), `process ${pid}`, undefined);
    if (await isMeant()) invokeNow(pidfdSendSignalCall, [held, constants.signals.SIGKILL, null, 0]);
  } catch (error) {
    if (!isErrno(error, 'ESRCH')) throw error;
  }
}
