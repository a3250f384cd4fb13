import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { explain } from '../../../kernel/call/explain.ts';
import { checkMapper } from '../../mapped-device.ts';
import { type Finding, fail, ok } from '../../sight.ts';
import { checkActivation, checkMultipath } from './check-grabbers.ts';
import { findLvm } from './commands/place.ts';
import { isTooOld, versionOf } from './commands/version.ts';

/** Checks LVM, its version and device-mapper, and the programs that may take our logical volumes for theirs. */
export async function checkNode(queue: DiskQueue): Promise<Finding[]> {
  return [...(await checkLvm(queue)), await checkMapper(queue), await checkMultipath(queue)];
}

async function checkLvm(queue: DiskQueue): Promise<Finding[]> {
  const check = 'LVM';
  const remedy =
    'Install lvm2 on the node (2.03.12 or newer). A container must see its processes (hostPID: true) to run it.';
  try {
    const runner = await findLvm(queue);
    const { environment, lockDirectory, place } = runner;
    const version = await versionOf(runner);
    const udev = environment['DM_DISABLE_UDEV'] === undefined ? 'with udev' : 'without udev';
    const own = lockDirectory === undefined ? '' : ", as the host's is too old";
    const which = place === 'host' ? "the host's, in the host's namespaces" : `the one beside the driver${own}`;
    const detail = `${version}: ${which}, ${udev}`;
    if (isTooOld(version)) return [fail(check, `${detail}; too old`, remedy)];
    return [ok(check, detail), await checkActivation(runner)];
  } catch (error) {
    return [fail(check, explain(error), remedy)];
  }
}
