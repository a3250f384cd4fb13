import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { explain } from '../../../kernel/call/explain.ts';
import { checkMapper } from '../../mapped-device.ts';
import { type Finding, fail, ok } from '../../sight.ts';
import { checkActivation, checkMultipath } from './check-grabbers.ts';
import { findLvm, type LvmRunner } from './commands/place.ts';
import { isTooOld, versionOf } from './commands/version.ts';

/** Whether LVM and device-mapper are there, which LVM it is, and who may take our logical volumes for his. */
export async function checkNode(queue: DiskQueue): Promise<Finding[]> {
  const runner = await findLvm(queue);
  const lvm = await checkLvm(runner);
  const activation = lvm.status === 'ok' ? [await checkActivation(runner)] : [];
  return [lvm, ...activation, await checkMapper(queue), await checkMultipath(queue)];
}

async function checkLvm(runner: LvmRunner): Promise<Finding> {
  const { environment, lockDirectory, place } = runner;
  const check = 'LVM';
  const remedy =
    'Install lvm2 on the node (2.03.12 or newer). A container must see its processes (hostPID: true) to run it.';
  try {
    const version = await versionOf(runner);
    const udev = environment['DM_DISABLE_UDEV'] === undefined ? 'with udev' : 'without udev';
    const own = lockDirectory === undefined ? '' : ", as the host's is too old";
    const which = place === 'host' ? "the host's, in the host's namespaces" : `the one beside the driver${own}`;
    const detail = `${version}: ${which}, ${udev}`;
    return isTooOld(version) ? fail(check, `${detail}; too old`, remedy) : ok(check, detail);
  } catch (error) {
    return fail(check, explain(error), remedy);
  }
}
