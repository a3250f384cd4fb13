import { run } from '../../../command/run.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { explain } from '../../../kernel/call/explain.ts';
import { checkMapper } from '../../mapped-device.ts';
import { type Finding, fail, ok } from '../../sight.ts';
import { checkActivation, checkMultipath } from './check-grabbers.ts';
import { findLvm, type LvmRunner } from './commands/place.ts';

/** The first that knows --setautoactivation. */
const oldestVersion = [2, 3, 12] as const;

/** Whether LVM and device-mapper are there, which LVM it is, and who may take our logical volumes for his. */
export async function checkNode(queue: DiskQueue): Promise<Finding[]> {
  const runner = await findLvm(queue);
  const lvm = await checkLvm(runner);
  const activation = lvm.status === 'ok' ? [await checkActivation(runner)] : [];
  return [lvm, ...activation, await checkMapper(queue), await checkMultipath(queue)];
}

async function checkLvm({ before, environment, place, program }: LvmRunner): Promise<Finding> {
  const check = 'LVM';
  const remedy =
    'Install lvm2 on the node (2.03.12 or newer). A container must see its processes (hostPID: true) to run it.';
  try {
    const { stdout } = await run(program, [...before, 'version'], { environment });
    const text = /LVM version:\s+([0-9]+\.[0-9]+\.[0-9]+)/.exec(stdout)?.[1] ?? '';
    const udev = environment['DM_DISABLE_UDEV'] === undefined ? 'with udev' : 'without udev';
    const which = place === 'host' ? "the host's, in the host's namespaces" : 'the one beside the driver';
    const detail = `${text}: ${which}, ${udev}`;
    return isOld(text.split('.').map(Number)) ? fail(check, `${detail}; too old`, remedy) : ok(check, detail);
  } catch (error) {
    return fail(check, explain(error), remedy);
  }
}

function isOld(version: readonly number[]): boolean {
  const differing = oldestVersion.findIndex((part, index) => version[index] !== part);
  return differing >= 0 && (version[differing] ?? 0) < (oldestVersion[differing] ?? 0);
}
