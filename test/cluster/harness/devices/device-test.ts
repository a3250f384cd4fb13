import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Namespace } from '../namespace.ts';
import { waitFor } from '../waiting.ts';
import { deviceCluster } from './current.ts';
import { leftOnDevices } from './left-on-devices.ts';

/** The node is slow: its processor is a program. Only a failure takes so long. */
const timeoutMs = 1_800_000;
const patienceSeconds = 900;
const wipedMs = 600_000;
let count = 0;

/**
 * A test in a namespace of its own. Afterwards the namespace goes, and nothing of its volumes may be left on the node. If it
 * fails, it tells what Kubernetes and the driver have to say.
 */
export function deviceTest(name: string, body: (namespace: Namespace) => Promise<void>): void {
  test(name, { timeout: timeoutMs }, async (context) => {
    const { driver, kubectl } = deviceCluster();
    count += 1;
    const namespace = await Namespace.make(kubectl, `devices-${count}`, { patienceSeconds });
    try {
      await body(namespace);
    } catch (error) {
      context.diagnostic(await namespace.describe());
      context.diagnostic(await driver.log().then((log) => log.trimEnd().split('\n').slice(-30).join('\n'), String));
      throw error;
    } finally {
      await namespace[Symbol.asyncDispose]();
    }
    const isClean = async () => assert.deepEqual(await leftOnDevices(deviceCluster()), []);
    await waitFor('nothing to be left', isClean, wipedMs);
  });
}
