import { AdminError } from '../../src/admin/client.ts';
import type { CrashPoint } from '../../src/volume/step.ts';
import { CallError } from '../support/client.ts';
import type { CrashNode } from './crash-node.ts';

/** Makes a call whose driver dies at the point; no driver runs when this returns. */
export async function interrupt(node: CrashNode, point: CrashPoint, call: () => Promise<void>): Promise<void> {
  await node.kill();
  await node.start({ at: point });
  await expectInterruption(call());
  await node.died();
}

/** The call's driver dies under it; or behind its back, once it has answered. */
async function expectInterruption(call: Promise<void>): Promise<void> {
  try {
    await call;
  } catch (error) {
    const isCutOff = error instanceof AdminError || (error instanceof CallError && error.code === 'UNAVAILABLE');
    if (!isCutOff) throw error;
  }
}
