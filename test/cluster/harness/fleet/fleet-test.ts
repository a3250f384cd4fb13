import assert from 'node:assert/strict';
import { test } from 'node:test';
import { leftovers } from '../leftovers.ts';
import { Namespace } from '../namespace.ts';
import { waitFor } from '../waiting.ts';
import { fleet } from './current.ts';

let count = 0;

/**
 * A test in a namespace of its own, on three nodes. Afterwards the namespace goes, and nothing of its volumes may be left on
 * any node. If it fails, it tells what Kubernetes, the drivers and the controllers have to say.
 */
export function fleetTest(
  name: string,
  body: (namespace: Namespace) => Promise<void>,
  { timeoutMs = 600_000 }: { readonly timeoutMs?: number } = {},
): void {
  test(name, { timeout: timeoutMs }, async (context) => {
    const { kubectl, nodes } = fleet();
    count += 1;
    const namespace = await Namespace.make(kubectl, `fleet-${count}`);
    try {
      await body(namespace);
    } catch (error) {
      context.diagnostic(await namespace.describe());
      for (const log of await logs()) context.diagnostic(log);
      throw error;
    } finally {
      await namespace[Symbol.asyncDispose]();
    }
    await waitFor('nothing to be left', async () => assert.deepEqual(await leftovers(kubectl, ...nodes), []));
  });
}

/** The ends of the logs of all that is ours. */
async function logs(): Promise<string[]> {
  const { driver, nodes } = fleet();
  const replicas = await driver.controllers().catch(() => []);
  const all: [string, Promise<string>][] = [
    ...nodes.map(({ name }): [string, Promise<string>] => [`driver on ${name}`, driver.log(name)]),
    ...replicas.flatMap(({ pod }) =>
      ['holdfast', 'csi-provisioner', 'csi-snapshotter', 'csi-resizer'].map((container): [string, Promise<string>] => [
        `${container} in ${pod}`,
        driver.controllerLog(pod, container),
      ]),
    ),
  ];
  return Promise.all(all.map(async ([who, log]) => `${who}:\n${await log.then(lastLines, String)}`));
}

function lastLines(log: string): string {
  return log.trimEnd().split('\n').slice(-20).join('\n');
}
