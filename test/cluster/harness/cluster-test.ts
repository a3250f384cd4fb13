import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cluster } from './current.ts';
import { leftovers } from './leftovers.ts';
import { Namespace } from './namespace.ts';
import { waitFor } from './waiting.ts';

let count = 0;

/**
 * A test in a namespace of its own. Afterwards the namespace goes, and nothing of its volumes may be left anywhere. If it
 * fails, it tells what Kubernetes and the driver have to say.
 */
export function clusterTest(name: string, body: (namespace: Namespace) => Promise<void>): void {
  test(name, { timeout: 600_000 }, async (context) => {
    const { kubectl, driver } = cluster();
    count += 1;
    const namespace = await Namespace.make(kubectl, `test-${count}`);
    try {
      await body(namespace);
    } catch (error) {
      context.diagnostic(await namespace.describe());
      context.diagnostic(await driver.log().then(lastCalls, String));
      throw error;
    } finally {
      await namespace[Symbol.asyncDispose]();
    }
    await waitFor('nothing to be left', async () => assert.deepEqual(await leftovers(kubectl, driver), []));
  });
}

/** The end of the driver's log. */
function lastCalls(log: string): string {
  return log.trimEnd().split('\n').slice(-30).join('\n');
}
