import assert from 'node:assert/strict';
import { CallError } from './client.ts';

/** A call fails with this code, in such words. @returns its error */
export async function refused(call: Promise<unknown>, code: string, message: RegExp): Promise<CallError> {
  const error = await call.then(
    () => assert.fail('the call did not fail'),
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof CallError, String(error));
  assert.match(error.message, message);
  assert.equal(error.code, code, error.message);
  return error;
}

/** The same, in words of the length that people read. */
export async function refusedBriefly(call: Promise<unknown>, code: string, message: RegExp): Promise<CallError> {
  const error = await refused(call, code, message);
  assert.ok(error.message.length <= 200, error.message);
  return error;
}
