import { processFile } from './processes.ts';

/** Whether root may here what the kernel asks for to grow a mounted ext4: bit 24 of the bounding set (capability.h). */
export function hasSysResource(): boolean {
  return (BigInt(`0x${boundingSet()}`) & (1n << 24n)) !== 0n;
}

/** The proof, for those who are told of it. */
export function boundingSet(): string {
  return /^CapBnd:\s+([0-9a-f]+)$/m.exec(processFile('self', 'status'))?.[1] ?? '0';
}
