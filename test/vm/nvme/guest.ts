import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { disconnectNvme, type NvmeController, nvmeSubsystem } from '../../../src/kernel/block/nvme.ts';
import { DiskQueue } from '../../../src/kernel/call/disk-queue.ts';
import type { ContextHarness } from '../../support/context-harness.ts';
import { eventually } from '../../support/eventually.ts';

/* The target of the tests in the virtual machine, and the node's connections to it. */

export const nqn = 'nqn.2026-01.dev.holdfast:target';
/** The directory of the target's files. */
export const directory = '/target';
export const portals = '127.0.0.1:4420';
/** The first namespace, and its volume_context. */
export const uuid = '11111111-1111-4111-8111-111111111111';
export const context = { kind: 'nvme-tcp', nqn, portals, uuid } as const;

const script = fileURLToPath(new URL('../../../test/vm/nvme/target.sh', import.meta.url));

interface NvmeTarget {
  readonly address: string;
  readonly nqn: string;
  /** The name of its directory among the target's ports. */
  readonly port: string;
}

/** Has a target do something: the words of target.sh. @returns what it printed */
export function targetOf({ address, nqn: name, port }: NvmeTarget, ...words: string[]): string {
  const env = { ...process.env, TARGET_ADDRESS: address, TARGET_NQN: name, TARGET_PORT: port };
  return execFileSync('sh', [script, ...words], { env, encoding: 'utf8' });
}

export const target = (...words: string[]) => targetOf({ nqn, address: '127.0.0.1', port: '1' }, ...words);

export const controllers = (nqns: readonly string[] = [nqn]): NvmeController[] =>
  nqns.flatMap((name) => nvmeSubsystem(name).controllers);

/** A test that fails leaves its connections to the next one otherwise. */
export async function endConnections(nqns?: readonly string[]): Promise<void> {
  for (const controller of controllers(nqns)) await disconnectNvme(new DiskQueue('after', 1), controller);
}

/** Nothing of any volume is left on the node. */
export async function nothingLeft(harness: ContextHarness, nqns?: readonly string[]): Promise<void> {
  assert.deepEqual([harness.mounts(), harness.notes()], [[], []]);
  await eventually(() => assert.deepEqual(controllers(nqns), []));
}
