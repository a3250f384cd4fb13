import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { buildDriver, type DriverCommand } from '../crash/bundle.ts';
import { type Circumstances, makeNode } from '../crash/crash-node.ts';
import type { Operation } from '../crash/operation.ts';
import { operations } from '../crash/operations/all.ts';
import { TestVolume } from '../crash/test-volume.ts';
import { Scratch } from '../support/scratch.ts';
import type { DiskEvent } from './disk-event.ts';
import { lostByPowerCut } from './disk-model.ts';
import { hasOneJournal } from './journal-of.ts';
import { poolRules } from './pool-rules.ts';
import { type Answered, DriverTrace } from './traced-node.ts';

/** Operations that can be done one after the other on one node. */
const keyOf = ({ circumstances = {} }: Operation) => JSON.stringify(circumstances);
const groups = [...new Set(operations.map(keyOf))].flatMap((key) => {
  const group = operations.filter((operation) => keyOf(operation) === key);
  const circumstances: Circumstances = JSON.parse(key);
  // Where one journal has all changes in their order, a later sync makes good one that is missing: so also where it has not.
  return circumstances.pools === undefined
    ? [
        { circumstances, group },
        { circumstances: { ...circumstances, pools: ['btrfs'] } as const, group },
      ]
    : [{ circumstances, group }];
});

describe('T06: what an operation leaves is durable when it is answered', () => {
  let command: DriverCommand;
  before(async () => {
    command = await buildDriver();
  });
  after(() => command[Symbol.dispose]());

  for (const { circumstances, group } of groups) {
    test(`with ${JSON.stringify(circumstances)}`, async (t) => {
      const { complaints, withoutSyncs, withoutWriteOut } = await trace(command, circumstances, group);
      for (const { name } of group) {
        await t.test(name, () => {
          const about = complaints.filter((complaint) => complaint.includes(`${name} was answered`));
          assert.deepEqual(about, []);
        });
      }
      await t.test('and the same without its syncs would not be', () => assert.notDeepEqual(withoutSyncs, []));
      // Those about the order of things name no operation; they come of anything that was done on the way.
      if (withoutWriteOut !== undefined) {
        await t.test('and without content being written out', () => assert.notDeepEqual(withoutWriteOut, []));
      }
      await t.test('and what came first was durable before the rest', () => {
        assert.deepEqual(
          complaints.filter((complaint) => !complaint.includes(' was answered')),
          [],
        );
      });
    });
  }
});

/** Does all operations on a node under strace. @returns what a power cut at an answer could have taken */
async function trace(
  driver: DriverCommand,
  circumstances: Circumstances,
  group: readonly Operation[],
): Promise<{
  readonly complaints: string[];
  readonly withoutSyncs: string[];
  /** undefined: nothing relies on it. */
  readonly withoutWriteOut: string[] | undefined;
}> {
  using scratch = new Scratch('durable');
  const traced = new DriverTrace(scratch);
  await using node = makeNode(traced.command(driver), scratch, circumstances);
  const answers: Answered[] = [await traced.answerTo('the first Probe', () => node.start())];
  for (const [index, operation] of group.entries()) {
    const name = `volume-${index}`;
    const volume = operation.makeVolume?.(node, name) ?? new TestVolume(node, name, operation.content);
    await operation.prelude(volume);
    answers.push(await traced.answerTo(operation.name, () => operation.run(volume)));
    await volume.unpublish();
    await volume.unstage();
    await volume.detach();
    // Whether the operation has left it or not.
    await volume.create();
    await volume.destroy();
    await operation.cleanUp?.(volume);
  }
  const roots = node.pools.map(({ root }) => ({ root, hasJournal: hasOneJournal(root) }));
  const { pid } = node;
  await node.stop();
  const events = await traced.events(pid, answers);
  const without = (left: DiskEvent['kind']) =>
    roots.flatMap(({ root, hasJournal }) =>
      lostByPowerCut(
        events.filter(({ kind }) => kind !== left),
        poolRules(root),
        hasJournal,
      ),
    );
  return {
    complaints: roots.flatMap(({ root, hasJournal }) => lostByPowerCut(events, poolRules(root), hasJournal)),
    withoutSyncs: without('sync'),
    withoutWriteOut: roots.some(({ hasJournal }) => hasJournal) ? without('write-out') : undefined,
  };
}
