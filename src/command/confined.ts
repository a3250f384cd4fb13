import type { FilesystemType } from '../volume/filesystem.ts';
import { type CommandResult, type RunOptions, run } from './run.ts';

/** A filesystem that is not mounted. */
export interface UnmountedVolume {
  readonly devicePath: string;
  readonly fsType: FilesystemType;
}

/** Exit code for a volume that cannot be mounted. The programs that run here do not use it. */
export const cannotMount = 125;

/*
 * $1: filesystem type, $2: device, $3: directory in the volume, the rest: the program. A new mount namespace has a copy
 * of every mount, and would keep each volume's device busy while the program runs. So mounts of loop devices are
 * unmounted in it (proc_pid_mountinfo(5): after " - " come type and source). Until then, an unmount in the kubelet's
 * directory propagates here, as that is shared where Kubernetes runs. The volume is mounted on /sys: it exists on every
 * system, every user may pass through it, and nothing here needs it. If memory runs out, the kernel shall end this
 * process and not the driver. The shell stays: it ends with its parent, and all others with it, while a program that
 * becomes another user's loses that setting (PR_SET_PDEATHSIG(2const)). The program's files are for the pod, which may
 * run as any user, so the umask is not the driver's.
 */
const script = [
  'umask 022',
  'set -f; others=',
  'while read -r _ _ _ _ target rest; do',
  `  case "$target \${rest##* - }" in "/ "*) ;; *" /dev/loop"*|*" /dev/dm-"*) others="$target $others" ;; esac`,
  'done </proc/self/mountinfo',
  '[ -z "$others" ] || umount -l $others 2>/dev/null',
  'mount -t "$1" -o nosuid,nodev,noexec -- "$2" /sys && cd -- "/sys/$3" || exit 125',
  'echo 1000 2>/dev/null >/proc/self/oom_score_adj || :',
  'shift 3',
  '"$@"',
  'exit $?',
].join('\n');

/**
 * Runs a program in a directory of a volume, which is mounted in a separate mount namespace, so that only this program
 * sees it. All its processes end with the driver, even one that is killed (setpriv(1), --pdeathsig; unshare(1),
 * --kill-child). The mount goes with them, so nothing is ever left.
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

/** The command, run by a user that owns nothing on this node and may read only files that every user may read. */
export function withoutPrivileges(userId: number, command: readonly string[]): string[] {
  const identity = ['--reuid', `${userId}`, '--regid', `${userId}`, '--clear-groups'];
  return ['setpriv', ...identity, '--no-new-privs', '--inh-caps=-all', '--bounding-set=-all', ...command];
}
