import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import fc from 'fast-check';
import { methodsOf } from '../../src/csi/contract.ts';
import { buildDriver, type DriverCommand } from '../crash/bundle.ts';
import type { Circumstances } from '../crash/crash-node.ts';
import { Fixture, undoAll } from './fixture.ts';
import { HostileNode } from './hostile-node.ts';
import { RawClient } from './raw-client.ts';
import { requestsFor } from './requests.ts';
import { howToRepeat, times, withoutShrinking } from './runs.ts';

/*
 * E01 E02 L01-L14: requests of every RPC, generated from the contract, to a driver at work. It never crashes, never
 * touches what is not its own, always answers with a code that fits and a message, and afterwards everything that the
 * requests may have made can be undone by calls and is gone.
 */

const services = ['Identity', 'Controller', 'GroupController', 'SnapshotMetadata', 'Node'];

let command: DriverCommand;
before(async () => {
  command = await buildDriver();
});
after(() => command[Symbol.dispose]());

const kinds: Readonly<Record<string, Circumstances>> = {
  'a pool in a file': {},
  'a pool whose volumes are published to their node': { isAttachRequired: true },
};

for (const [kind, circumstances] of Object.entries(kinds)) {
  const isAttachRequired = circumstances.isAttachRequired === true;
  describe(`generated requests: ${kind}`, () => {
    for (const service of services) {
      // Whether a volume must be published first makes a difference to the controller alone.
      if (isAttachRequired && service !== 'Controller') continue;
      test(service, async (t) => {
        t.diagnostic(howToRepeat);
        await using hostile = await HostileNode.open(command, circumstances);
        const fixture = new Fixture(hostile);
        using client = new RawClient(hostile.node.socketPath);
        const answers = new Map<string, number>();
        for (const method of methodsOf(`csi.v1.${service}`)) {
          await fixture.ensure();
          const requests = requestsFor(method, fixture.lexicon);
          const property = fc.asyncProperty(requests, async (request) => {
            const { code } = await client.call(request);
            answers.set(code, (answers.get(code) ?? 0) + 1);
            hostile.checkUntouched();
          });
          await fc.assert(property, withoutShrinking(isAttachRequired ? 20 : 60));
          await hostile.checkConsistent();
        }
        await undoAll(hostile.node);
        await hostile.checkEmpty();
        t.diagnostic(`${service}: ${sum(answers)} requests: ${JSON.stringify(Object.fromEntries(answers))}`);
        await hostile.stop();
      });
    }
  });
}

test('requests of all RPCs in any order, several at a time', async (t) => {
  t.diagnostic(howToRepeat);
  await using hostile = await HostileNode.open(command);
  const fixture = new Fixture(hostile);
  using client = new RawClient(hostile.node.socketPath);
  const any = services.flatMap((service) =>
    methodsOf(`csi.v1.${service}`).map((method) => requestsFor(method, fixture.lexicon)),
  );
  let count = 0;
  const batch = fc.array(fc.oneof(...any), { minLength: 20, maxLength: 60 });
  const property = fc.asyncProperty(batch, async (requests) => {
    await fixture.build();
    await Promise.all(requests.map((request) => client.call(request)));
    count += requests.length;
    await hostile.checkConsistent();
    await undoAll(hostile.node);
    await hostile.checkEmpty();
  });
  await fc.assert(property, withoutShrinking(10));
  assert.ok(count >= times(10) * 20);
  t.diagnostic(`${count} requests in ${times(10)} batches`);
  await hostile.stop();
});

function sum(counts: ReadonlyMap<string, number>): number {
  return [...counts.values()].reduce((total, count) => total + count, 0);
}
