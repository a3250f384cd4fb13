import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Namespace } from '../namespace.ts';
import { waitFor } from '../waiting.ts';
import { networkCluster } from './current.ts';
import { leftOnNetwork } from './left-on-network.ts';

/** The nodes are slow: their processors are programs. Only a failure takes so long. */
const timeoutMs = 1_800_000;
const patienceSeconds = 900;
const goneMs = 300_000;
let count = 0;

/**
 * A test in a separate namespace. Afterwards the namespace goes, and nothing of its volumes may be left anywhere. If it
 * fails, it shows what Kubernetes and the drivers say.
 */
export function networkTest(name: string, body: (namespace: Namespace) => Promise<void>): void {
  test(name, { timeout: timeoutMs }, async (context) => {
    const { drivers, kubectl } = networkCluster();
    count += 1;
    const namespace = await Namespace.make(kubectl, `network-${count}`, { patienceSeconds });
    try {
      await body(namespace);
    } catch (error) {
      context.diagnostic(await namespace.describe());
      context.diagnostic(await drivers.log());
      throw error;
    } finally {
      await namespace[Symbol.asyncDispose]();
    }
    const isClean = async () => assert.deepEqual(await leftOnNetwork(networkCluster()), []);
    await waitFor('nothing to be left', isClean, goneMs);
  });
}
