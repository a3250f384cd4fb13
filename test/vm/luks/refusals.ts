import assert from 'node:assert/strict';
import { CallError } from '../../support/client.ts';
import { longestMessageCharacters, quotesOf } from '../../support/troubleshooting.ts';

/** Calls that are refused, each in words that docs/troubleshooting.md has. */
export class Refusals {
  readonly messages: string[] = [];

  /** @returns what it says */
  async refuses(code: string, call: Promise<unknown>): Promise<string> {
    const error = await call.then(
      () => assert.fail('nothing was refused'),
      (reason: unknown) => reason,
    );
    assert.ok(error instanceof CallError, `${error}`);
    assert.equal(error.code, code, error.message);
    assert.ok(error.message.length <= longestMessageCharacters, error.message);
    assert.equal(quotesOf(error.message).length, 1, `docs/troubleshooting.md does not have it: ${error.message}`);
    this.messages.push(error.message);
    return error.message;
  }
}
