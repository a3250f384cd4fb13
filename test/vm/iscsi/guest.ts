import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { iscsiLogout } from '../../../src/command/iscsiadm.ts';
import { type IscsiSession, iscsiSessions } from '../../../src/kernel/block/iscsi.ts';
import type { ContextHarness } from '../../support/context-harness.ts';
import { eventually } from '../../support/eventually.ts';

/* The target of the tests in the virtual machine, and the node's sessions to it. */

export const iqn = 'iqn.2026-01.dev.holdfast:target';
/** The directory of the target's files. */
export const directory = '/target';

const script = fileURLToPath(new URL('../../../test/vm/iscsi/target.sh', import.meta.url));

/** Has a target do something: the words of target.sh. @returns what it printed */
export function targetOf(which: { readonly address: string; readonly iqn: string }, ...words: string[]): string {
  const env = { ...process.env, TARGET_ADDRESS: which.address, TARGET_IQN: which.iqn };
  return execFileSync('sh', [script, ...words], { env, encoding: 'utf8', stdio: 'pipe' });
}

export const target = (...words: string[]) => targetOf({ iqn, address: '127.0.0.1' }, ...words);

export const sessions = (iqns: readonly string[] = [iqn]): IscsiSession[] =>
  iqns.flatMap((name) => iscsiSessions(name));

/** A test that fails leaves its sessions to the next one otherwise. */
export async function endSessions(iqns?: readonly string[]): Promise<void> {
  for (const { id, ifaceName = '' } of sessions(iqns)) await iscsiLogout({ before: [] }, { iface: ifaceName, id });
}

/** Nothing of any volume is left on the node. */
export async function nothingLeft(harness: ContextHarness, iqns?: readonly string[]): Promise<void> {
  await eventually(() => assert.deepEqual(sessions(iqns), []));
  assert.deepEqual(existsSync('/etc/iscsi/nodes') ? readdirSync('/etc/iscsi/nodes') : [], []);
  await nothingKept(harness);
}

/** Neither mounts nor notes of any volume are left, and no program of open-iscsi runs. */
export async function nothingKept(harness: ContextHarness): Promise<void> {
  assert.deepEqual([harness.mounts(), harness.notes()], [[], []]);
  const directoryOfNotes = harness.scratch.join('data/iscsi');
  assert.deepEqual(existsSync(directoryOfNotes) ? readdirSync(directoryOfNotes) : [], []);
  // A logout of a target that is gone may end a moment after its session.
  await eventually(() => {
    const running = execFileSync('sh', ['-c', 'cat /proc/[0-9]*/comm 2>/dev/null || true'], { encoding: 'utf8' });
    assert.doesNotMatch(running, /iscsiadm/);
  });
}
