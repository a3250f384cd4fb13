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

/** Has the target do something: the words of target.sh. @returns what it printed */
export const target = (...words: string[]) =>
  execFileSync('sh', [script, ...words], { encoding: 'utf8', stdio: 'pipe' });

export const sessions = (): IscsiSession[] => iscsiSessions(iqn);

/** A test that fails leaves its sessions to the next one otherwise. */
export async function endSessions(): Promise<void> {
  for (const { id, ifaceName = '' } of sessions()) await iscsiLogout({ before: [] }, { iface: ifaceName, id });
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
