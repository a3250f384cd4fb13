import assert from 'node:assert/strict';
import { CallError } from '../support/client.ts';

/** What a call may end with when the ground moves under it: no bug, no damage. */
const expected: readonly string[] = [
  'INVALID_ARGUMENT',
  'NOT_FOUND',
  'ALREADY_EXISTS',
  'FAILED_PRECONDITION',
  'ABORTED',
];

/** Whether it was done. Fails if it was refused for a reason that nobody on the path can bring about. */
export async function attempt(call: () => Promise<unknown>): Promise<boolean> {
  try {
    await call();
    return true;
  } catch (error) {
    assert.ok(error instanceof CallError, String(error));
    assert.ok(expected.includes(error.code), `${error.name}: ${error.message}`);
    return false;
  }
}
