import { CommandError, run } from '../../../../command/run.ts';
import type { LvmRunner } from './place.ts';

/** The first that knows --devices and --setautoactivation. */
const oldestVersion = [2, 3, 12] as const;

/** @throws CommandError if there is none, or it does not tell */
export async function versionOf({
  before,
  environment,
  program,
}: Pick<LvmRunner, 'before' | 'environment' | 'program'>): Promise<string> {
  const { exitCode, stderr, stdout } = await run(program, [...before, 'version'], { environment });
  const version = versionIn(stdout);
  if (version === undefined) throw new CommandError('lvm', exitCode, 'does not tell its version', stderr, stdout);
  return version;
}

/** From what `lvm version` prints. */
export function versionIn(text: string): string | undefined {
  return /LVM version:\s+([0-9]+\.[0-9]+\.[0-9]+)/.exec(text)?.[1];
}

/** True if a version cannot do what the driver needs. */
export function isTooOld(version: string): boolean {
  const parts = version.split('.').map(Number);
  const differing = oldestVersion.findIndex((part, index) => parts[index] !== part);
  return differing >= 0 && (parts[differing] ?? 0) < (oldestVersion[differing] ?? 0);
}
