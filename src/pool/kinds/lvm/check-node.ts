import { run } from '../../../command/run.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { explain } from '../../../kernel/call/explain.ts';
import { listProcesses, processState } from '../../../kernel/process/process.ts';
import { checkMapper } from '../../mapped-device.ts';
import { type Finding, fail, ok, warn } from '../../sight.ts';
import { findLvm, type LvmRunner } from './commands/place.ts';
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

/* Programs on this node that may take the content of a volume for theirs, for `holdfast doctor`. */

const lvmConf = "Set devices { scan_lvs = 0 } in the node's lvm.conf, or leave these devices out by its global_filter.";

/** By its own configuration, LVM leaves alone what lies in a logical volume, or makes it a part of this node. */
async function checkActivation({ before, environment, program }: LvmRunner): Promise<Finding> {
  const check = 'event activation';
  try {
    const { stdout } = await run(program, [...before, 'lvmconfig', '--typeconfig', 'full'], { environment });
    const { activatesByEvent, looksIntoVolumes } = scanningOf(stdout);
    const when = activatesByEvent ? 'as soon as they are seen' : 'with the next vgchange';
    if (looksIntoVolumes) {
      const whose = 'volume groups that tenants make inside raw block volumes are activated';
      return warn(check, `LVM looks into logical volumes (scan_lvs = 1): ${whose} ${when}`, lvmConf);
    }
    return ok(check, `${activatesByEvent ? 'on' : 'off'}; LVM does not look into logical volumes (scan_lvs = 0)`);
  } catch (error) {
    return warn(check, explain(error), `It is not known which volumes LVM would activate automatically. ${lvmConf}`);
  }
}

/** multipathd takes every disk that it is not configured to leave, also those inside of a logical volume. */
async function checkMultipath(queue: DiskQueue): Promise<Finding> {
  const check = 'multipath';
  for (const pid of await listProcesses(queue)) {
    if ((await processState(queue, pid))?.command !== 'multipathd') continue;
    const remedy = 'See that it leaves the disks of volume groups alone (find_multipaths yes).';
    return warn(check, `multipathd is running (process ${pid})`, remedy);
  }
  return ok(check, 'multipathd is not seen running here');
}

/** The things that LVM does automatically with devices that come up. */
interface Scanning {
  /** It takes logical volumes for physical ones, if they say so. */
  readonly looksIntoVolumes: boolean;
  /** udev has it activate a volume group whose disks are all there. */
  readonly activatesByEvent: boolean;
}

/** From the text of `lvm lvmconfig --typeconfig full`. What a version does not know yet, it does. */
export function scanningOf(text: string): Scanning {
  return {
    looksIntoVolumes: setting(text, 'scan_lvs') !== '0',
    activatesByEvent: setting(text, 'event_activation') !== '0',
  };
}

function setting(text: string, name: string): string | undefined {
  return new RegExp(`^\\s*${name}=(\\S+)`, 'm').exec(text)?.[1];
}
