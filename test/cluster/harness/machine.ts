import { readlinkSync } from 'node:fs';
import { processFile } from './processes.ts';

/** Whether root may here what the kernel asks for to grow a mounted ext4: bit 24 of the bounding set (capability.h). */
export function hasSysResource(): boolean {
  return (BigInt(`0x${boundingSet()}`) & (1n << 24n)) !== 0n;
}

/** The proof, for those who are told of it. */
export function boundingSet(): string {
  return /^CapBnd:\s+([0-9a-f]+)$/m.exec(processFile('self', 'status'))?.[1] ?? '0';
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
