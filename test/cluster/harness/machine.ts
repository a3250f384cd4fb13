import { readlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { CommandError, runToEnd } from './command.ts';
import { processFile } from './processes.ts';

/** Whether root may here what the kernel asks for to grow a mounted ext4: bit 24 of the bounding set (capability.h). */
export function hasSysResource(): boolean {
  return (BigInt(`0x${boundingSet()}`) & (1n << 24n)) !== 0n;
}

/** The proof, for those who are told of it. */
export function boundingSet(): string {
  return /^CapBnd:\s+([0-9a-f]+)$/m.exec(processFile('self', 'status'))?.[1] ?? '0';
}

/** What Go's module proxy says when it is asked for one that it does not hand out; undefined if it does. */
export async function moduleRefusal(module: string): Promise<string | undefined> {
  try {
    await runToEnd('go', ['list', '-m', '-versions', module], { cwd: tmpdir(), timeoutMs: 60_000 });
    return undefined;
  } catch (error) {
    return error instanceof CommandError ? error.stderr.trim().split('\n').at(-1)?.trim() : String(error);
  }
}

/** Why nobody may enter the mount namespace of process 1 here; undefined if root may. */
export function pidOneNamespaceError(): string | undefined {
  try {
    readlinkSync('/proc/1/ns/mnt');
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
