import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { buildDriver, type DriverCommand } from '../crash/bundle.ts';
import { CrashNode } from '../crash/crash-node.ts';
import { fileConfig, makePool } from '../crash/crash-pool.ts';
import { type Opening, openings } from '../crash/operations/openings.ts';
import { Scratch } from '../support/scratch.ts';
import { lostByPowerCut } from './disk-model.ts';
import { hasOneJournal } from './journal-of.ts';
import { locationRules, poolRules } from './pool-rules.ts';
import { type Answered, DriverTrace } from './traced-node.ts';

describe('T06: what a start of the driver makes is durable when it says that it is ready', () => {
  let command: DriverCommand;
  before(async () => {
    command = await buildDriver();
  });
  after(() => command[Symbol.dispose]());

  for (const opening of openings) {
    test(opening.name, async () => {
      assert.deepEqual(await trace(command, opening), []);
    });
  }
});

/** Starts the driver under strace. @returns what a power cut could have taken at the moment when it was ready */
async function trace(driver: DriverCommand, { name, pool: location, prelude, sizes }: Opening): Promise<string[]> {
  using scratch = new Scratch('durable');
  const traced = new DriverTrace(scratch);
  const pool = makePool(scratch, location, sizes?.before);
  await using node = new CrashNode({ command: traced.command(driver), scratch, circumstances: {}, pools: [pool] });
  const answers: Answered[] = [];
  if (prelude !== undefined) {
    answers.push(await traced.answerTo('the start before', () => node.start()));
    await prelude(node);
    await node.kill();
    if (sizes !== undefined) node.configure({ ...pool, config: fileConfig(pool.location, sizes.now) });
  }
  answers.push(await traced.answerTo(name, () => node.start()));
  const { pid } = node;
  const hasJournal = hasOneJournal(pool.root);
  await node.stop();
  const events = await traced.events(pid, answers);
  return [
    ...lostByPowerCut(events, poolRules(pool.root), hasJournal),
    ...lostByPowerCut(events, locationRules(scratch.path, pool)),
  ];
}
