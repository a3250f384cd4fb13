/** Runs in the virtual machine: a target that is gone hurts its own volumes only. */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import type { NodeKind } from '../../../src/pool/node-side.ts';
import { ContextHarness } from '../../support/context-harness.ts';
import { eventually, soon } from '../../support/eventually.ts';
import { mountCapability, type TestVolume } from '../../support/node-volume.ts';
import { refused } from '../../support/refused.ts';

/** The address of the target that goes away. That of the other one is 127.0.0.1. */
export const goingAddress = '10.99.0.1';

export interface GoingTarget {
  readonly kind: NodeKind;
  /** The volume_context of an XFS on the target that goes, of another disk there, and of an XFS on the target that stays. */
  readonly going: Readonly<Record<string, string>>;
  readonly alsoGoing: Readonly<Record<string, string>>;
  readonly staying: Readonly<Record<string, string>>;
  /** Makes both targets and their disks. */
  make(): void;
  /** Has the target that goes do something: the words of target.sh. */
  target(words: 'cut' | 'heal' | 'stop' | 'start'): void;
  /** Nothing of any volume is left on the node. */
  nothingLeft(harness: ContextHarness): Promise<void>;
  /** A test that fails leaves its sessions to the next one otherwise. */
  endSessions(): Promise<void>;
}

const rounds = 5;
/** For what the kernel finds out gradually, on a busy machine. */
const patienceMs = 300_000;

/** Adds numbered lines to a file, each acknowledged after its fsync, until a file says stop. $1: file, $2: acknowledged, $3: stop. */
const load = `i=0; while [ ! -e "$3" ]; do
  i=$((i + 1)); printf '%08d\\n' $i >>"$1" && sync "$1" && echo $i >"$2.new" && mv "$2.new" "$2" || exit 1
done`;

const run = (words: string) => execFileSync('sh', ['-ec', words], { stdio: 'pipe' });

/** Delays packets to the target that goes, and from it. */
function slow(): void {
  run('modprobe -a sch_prio sch_netem cls_u32');
  run('tc qdisc add dev lo root handle 1: prio bands 4');
  run('tc qdisc add dev lo parent 1:4 netem delay 150ms');
  for (const end of ['src', 'dst']) {
    run(`tc filter add dev lo parent 1: protocol ip u32 match ip ${end} ${goingAddress}/32 flowid 1:4`);
  }
}

export function describeGone({
  alsoGoing,
  endSessions,
  going,
  kind,
  make,
  nothingLeft,
  staying,
  target,
}: GoingTarget): void {
  describe('a target that is gone', () => {
    let harness: ContextHarness;
    const xfs = mountCapability('SINGLE_NODE_WRITER', [], 'xfs');
    const abnormal = async (volume: TestVolume) => (await volume.stats()).volume_condition?.abnormal;

    before(make);
    beforeEach(async () => {
      harness = await ContextHarness.open([kind]);
    });
    afterEach(async () => {
      await harness[Symbol.asyncDispose]();
      await endSessions();
    });
    after(() => target('heal'));

    /** @returns how long a life of a volume on the other target takes, in ms: the median of some */
    async function livesMs(): Promise<number> {
      const took: number[] = [];
      for (let round = 0; round < rounds; round++) {
        const volume = harness.volume('staying', xfs);
        const startedMs = performance.now();
        await volume.up(staying);
        writeFileSync(join(volume.target, 'file'), `${round}`, { flush: true });
        await volume.stats();
        await volume.down();
        took.push(performance.now() - startedMs);
      }
      return took.toSorted((a, b) => a - b)[rounds >> 1] ?? 0;
    }

    test('hurts its own volumes only: they can be left, and those of another target go on', async (t) => {
      const volume = harness.volume('going', xfs);
      await volume.up(going);
      const path = join(volume.target, 'file');
      writeFileSync(path, 'acknowledged', { flush: true });
      // Not later: to make a file may need the target, and the driver runs in this process.
      writeFileSync(join(volume.target, 'dirty'), 'not acknowledged');
      const before = await livesMs();
      target('cut');
      const alone = await livesMs();
      await eventually(async () => assert.equal(await abnormal(volume), true), patienceMs);
      const other = harness.volume('never staged', xfs);
      const calls = Promise.all([
        volume.unpublish().then(() => eventually(async () => void (await volume.unstage()), patienceMs)),
        refused(other.stage({ volume_context: alsoGoing }), 'UNAVAILABLE', /does not answer|cannot be reached/),
      ]);
      const meanwhile = await livesMs();
      await calls;
      await nothingLeft(harness);
      const [b, a, m] = [before, alone, meanwhile].map((ms) => ms.toFixed(0));
      t.diagnostic(
        `a life on the other target took ${b} ms before, ${a} ms without this one, ${m} ms while its volume was left`,
      );
      target('heal');
      await volume.up(going);
      assert.equal(readFileSync(path, 'utf8'), 'acknowledged');
      await volume.down();
      await nothingLeft(harness);
    });

    test('is given up by an unstage behind one that was given up itself, whose unmount goes on', async () => {
      await harness.stop();
      await harness.start(3_000);
      const volume = harness.volume('given up', xfs);
      await volume.up(going);
      const path = join(volume.target, 'file');
      writeFileSync(path, 'acknowledged', { flush: true });
      writeFileSync(join(volume.target, 'dirty'), 'not acknowledged');
      target('cut');
      await volume.unpublish();
      await refused(volume.unstage(), 'UNAVAILABLE', /has not answered for 3 s/);
      await harness.restart();
      assert.deepEqual(harness.mounts(), []);
      await eventually(async () => void (await volume.unstage()), patienceMs);
      await nothingLeft(harness);
      target('heal');
      await volume.up(going);
      assert.equal(readFileSync(path, 'utf8'), 'acknowledged');
      await volume.down();
      await nothingLeft(harness);
    });

    test('that is slow is waited for, and those of another target take their usual time', async (t) => {
      const volume = harness.volume('slow', xfs);
      const path = join(volume.target, 'late');
      const before = await livesMs();
      slow();
      try {
        const startedMs = performance.now();
        const up = volume.up(going).then(() => performance.now() - startedMs);
        const meanwhile = await livesMs();
        const took = await up;
        writeFileSync(path, 'acknowledged', { flush: true });
        assert.equal(await abnormal(volume), false);
        await volume.down();
        await nothingLeft(harness);
        const [b, m, u] = [before, meanwhile, took].map((ms) => ms.toFixed(0));
        t.diagnostic(
          `with 300 ms for a packet there and back a volume was up after ${u} ms; a life on the other target took ${b} ms before, ${m} ms meanwhile`,
        );
      } finally {
        run('tc qdisc delete dev lo root');
      }
      await volume.up(going);
      assert.equal(readFileSync(path, 'utf8'), 'acknowledged');
      await volume.down();
      await nothingLeft(harness);
    });

    for (const [away, back] of [
      ['stop', 'start'],
      ['cut', 'heal'],
    ] as const) {
      test(`under load: what was acknowledged is there when it is back, and its user goes on (${away}, ${back})`, async (t) => {
        const volume = harness.volume('loaded', xfs);
        await volume.up(going);
        const [lines, acknowledged, stop] = [
          join(volume.target, `lines-${away}`),
          harness.scratch.join('acknowledged'),
          harness.scratch.join('stop'),
        ];
        const writer = spawn('sh', ['-c', load, 'sh', lines, acknowledged, stop], { stdio: 'ignore' });
        const ended = once(writer, 'exit');
        const count = () => Number(readFileSync(acknowledged, 'utf8'));
        await eventually(() => assert.ok(count() >= 20));
        target(away);
        await eventually(async () => assert.equal(await abnormal(volume), true), patienceMs);
        const atMost = count();
        target(back);
        await eventually(() => assert.ok(count() > atMost + 20), patienceMs);
        writeFileSync(stop, '');
        assert.deepEqual(await soon(ended, 'the writer does not end'), [0, null]);
        await eventually(async () => assert.equal(await abnormal(volume), false), patienceMs);
        await volume.down();
        await nothingLeft(harness);
        await volume.up(going);
        const found = readFileSync(lines, 'utf8').trimEnd().split('\n').map(Number);
        assert.deepEqual(
          found,
          Array.from({ length: count() }, (_, at) => at + 1),
        );
        t.diagnostic(`${count()} lines were acknowledged, ${atMost} of them before it was back`);
        await volume.down();
        await nothingLeft(harness);
      });
    }
  });
}
