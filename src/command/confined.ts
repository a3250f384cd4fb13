import type { FilesystemType } from '../volume/filesystem.ts';
import { type CommandResult, type RunOptions, run } from './run.ts';

/** A filesystem that is mounted nowhere. */
export interface UnmountedVolume {
  readonly devicePath: string;
  readonly fsType: FilesystemType;
}

/** The exit code if the volume cannot be mounted; programs of ours end with others. */
export const cannotMount = 125;

/*
 * $1: filesystem type, $2: device, $3: directory in the volume, the rest: the program.
 * A new mount namespace has a copy of every mount, and would keep each volume's device busy for as long as the program
 * runs: those of loop devices are let go (proc_pid_mountinfo(5): after " - " come type and source). Where the kubelet's
 * directory is shared, as Kubernetes asks for, an unmount there is one here too, in the moment before that as well.
 * /sys is a place that is there on every system, that everybody may pass through, and that nothing here needs. If memory
 * runs out the kernel shall end this process and not the driver. The shell stays: it ends with its parent, and all the
 * others with it, while the program forgets its parent if it becomes another user's (PR_SET_PDEATHSIG(2const)).
 * What the program makes is for the pod, whoever it runs as, and not for root alone as what the driver makes.
 */
const script = [
  'umask 022',
  'set -f; others=',
  'while read -r _ _ _ _ target rest; do',
  `  case "$target \${rest##* - }" in "/ "*) ;; *" /dev/loop"*) others="$target $others" ;; esac`,
  'done </proc/self/mountinfo',
  '[ -z "$others" ] || umount -l $others 2>/dev/null',
  'mount -t "$1" -o nosuid,nodev,noexec -- "$2" /sys && cd -- "/sys/$3" || exit 125',
  'echo 1000 2>/dev/null >/proc/self/oom_score_adj || :',
  'shift 3',
  '"$@"',
  'exit $?',
].join('\n');

/**
 * Runs a program in a directory of a volume that only this program sees: mounted in a mount namespace of its own. All
 * its processes end with the driver, however that ends (setpriv(1), --pdeathsig; unshare(1), --kill-child), and with
 * them the mount goes, so that nothing is ever left of it.
 * @throws CommandError
 */
export function runInVolume(
  { devicePath, fsType }: UnmountedVolume,
  directory: string,
  command: readonly string[],
  options: RunOptions,
): Promise<CommandResult> {
  const namespaces = ['unshare', '--mount', '--propagation', 'slave', '--pid', '--fork', '--kill-child'];
  const shell = ['sh', '-c', script, 'sh', fsType, devicePath, directory];
  return run('setpriv', ['--pdeathsig', 'KILL', ...namespaces, ...shell, ...command], options);
}

/** The command, run by a user who owns nothing on this node and may read only what everybody may. */
export function withoutPrivileges(userId: number, command: readonly string[]): string[] {
  const identity = ['--reuid', `${userId}`, '--regid', `${userId}`, '--clear-groups'];
  return ['setpriv', ...identity, '--no-new-privs', '--inh-caps=-all', '--bounding-set=-all', ...command];
}
