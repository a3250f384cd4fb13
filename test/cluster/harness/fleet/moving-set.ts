import assert from 'node:assert/strict';
import { median } from '../../../bench/statistics.ts';
import type { Namespace } from '../namespace.ts';
import { type ClaimPlan, statefulSet } from '../objects.ts';
import { waitFor } from '../waiting.ts';
import { fleet } from './current.ts';
import { type, typeAll } from './terminal.ts';

export const turnMovesOn =
  'kubectl -n holdfast-system set env daemonset/holdfast -c holdfast HOLDFAST_MOVE_ADDRESS=:9445';
export const turnSnapshotsOn =
  'kubectl -n holdfast-system set env daemonset/holdfast -c holdfast HOLDFAST_MOVE_SNAPSHOTS=true';
export const driverIsReady = 'kubectl -n holdfast-system rollout status daemonset/holdfast --timeout=600s';

interface MovingSetPlan {
  readonly claim?: ClaimPlan;
  /** Runs once /data/log is there, before lines are written to it. */
  readonly script?: string;
}

/** A StatefulSet of one pod, which writes numbered lines, each synced before it counts as written, and moves with its claim. */
export class MovingSet {
  readonly handle: string;
  /** The node where it was started, and another one. */
  readonly first: string;
  readonly other: string;
  readonly #namespace: Namespace;
  #lastTime: readonly number[] = [];

  private constructor(namespace: Namespace, handle: string, first: string) {
    this.#namespace = namespace;
    this.handle = handle;
    this.first = first;
    this.other = fleet().nodes.find(({ name }) => name !== first)?.name ?? assert.fail('one node');
  }

  static async start(namespace: Namespace, { claim = {}, script = '' }: MovingSetPlan = {}): Promise<MovingSet> {
    const writer = [
      'touch /data/log; n=$(wc -l < /data/log)',
      script,
      'acknowledge() { cut -d" " -f1 /proc/uptime >> /data/times; echo "$1" > /tmp/acknowledged; }',
      '( while :; do n=$((n + 1)); echo "$n" >> /data/log && sync /data/log && acknowledge "$n"; done ) &',
    ].join('\n');
    await namespace.apply(statefulSet('set', { claims: { data: claim }, script: writer }));
    await ready(namespace);
    const { handle } = await namespace.volumeOf('data-set-0');
    return new MovingSet(namespace, handle, await nodeOf(namespace));
  }

  /** A plan of its move from the first node names the pool. */
  async requirePlan(pool: string): Promise<void> {
    const { status, stderr, stdout } = await type(this.#move(this.other, '--dry-run'));
    assert.equal(status, 0, stderr);
    assert.match(stdout, new RegExp(`from pool ${pool} of node ${this.first} to pool ${pool} of node ${this.other}`));
  }

  /** Waits for more lines than these. @returns the number of lines that count as written */
  async written(moreThan: number): Promise<number> {
    let acknowledged = 0;
    await waitFor('the writer to have written', async () => {
      acknowledged = Number(await this.#namespace.exec('set-0', 'cat /tmp/acknowledged'));
      assert.ok(acknowledged > moreThan, `${acknowledged}`);
    });
    return acknowledged;
  }

  /** @param options besides `--yes` */
  async move(to: string, ...options: readonly string[]): Promise<void> {
    const { status, stderr, stdout } = await type(this.#move(to, ['--yes', ...options].join(' ')));
    assert.equal(status, 0, stderr);
    assert.match(stdout, new RegExp(`${this.#namespace.name}/data-set-0 is on ${to}\\.`));
    await waitFor('the pod to run there', async () => {
      assert.equal(await nodeOf(this.#namespace), to);
      await ready(this.#namespace);
    });
  }

  /** Its pod is deleted, and runs again on its node. */
  async restart(): Promise<void> {
    const uid = await uidOf(this.#namespace);
    await this.#namespace.run(['delete', 'pod/set-0', '--wait=false']);
    await waitFor('the pod to run again', async () => {
      assert.notEqual(await uidOf(this.#namespace), uid);
      await ready(this.#namespace);
    });
  }

  /**
   * Moves it to the other node and back as many times, each time with more lines, and restarts it five times before. Prints for how long
   * it has written no line.
   */
  async moveBackAndForth(times: number): Promise<void> {
    await this.pauseSeconds();
    const restarts: number[] = [];
    for (let count = 0; count < 5; count++) {
      await this.restart();
      restarts.push(await this.pauseSeconds());
    }
    const moves: number[] = [];
    let acknowledged = 0;
    for (let at = 0; at < 2 * times; at++) {
      const to = at % 2 === 0 ? this.other : this.first;
      acknowledged = await this.written(acknowledged + 20);
      await this.move(to);
      await this.requireLines('/data/log', acknowledged);
      moves.push(await this.pauseSeconds());
      assert.deepEqual(fleet().nodesWith(this.handle), [to]);
      const { name } = await this.#namespace.volumeOf('data-set-0');
      const path = 'jsonpath={.spec.nodeAffinity} {.spec.persistentVolumeReclaimPolicy}';
      assert.match(await this.#namespace.run(['get', 'pv', name, '-o', path]), new RegExp(`"${to}".* Delete$`));
    }
    const [move, restart] = [median(moves), median(restarts)];
    console.log(`no line for ${move.toFixed(1)} s in a move, for ${restart.toFixed(1)} s in a plain restart (medians)`);
  }

  /** The longest time between two lines since it was asked for last. All nodes are on one machine, with one clock. */
  async pauseSeconds(): Promise<number> {
    await this.written(0);
    const all = (await this.#namespace.exec('set-0', 'cat /data/times; : > /data/times')).split('\n');
    const times = [...this.#lastTime, ...all.map(Number)];
    this.#lastTime = times.slice(-1);
    return Math.max(...times.slice(1).map((time, index) => time - (times[index] ?? 0)));
  }

  /** The lines that count as written are there, in their order. @param path of the file with them */
  async requireLines(path: string, acknowledged: number): Promise<void> {
    const lines = (await this.#namespace.exec('set-0', `cat ${path}`)).split('\n').filter((line) => line !== '');
    assert.ok(lines.length >= acknowledged, `${lines.length} lines, ${acknowledged} were acknowledged`);
    assert.deepEqual(
      lines.slice(0, acknowledged).map(Number),
      Array.from({ length: acknowledged }, (_, index) => index + 1),
    );
  }

  /** The copies that it has left. */
  async purge(): Promise<void> {
    await typeAll([this.first, this.other].map((node) => `kubectl holdfast trash purge ${this.handle} --node ${node}`));
  }

  #move(to: string, option: string): string {
    return `kubectl holdfast move ${this.#namespace.name}/data-set-0 --to ${to} ${option}`;
  }
}

async function ready(namespace: Namespace): Promise<void> {
  await namespace.wait('--for=jsonpath={.status.readyReplicas}=1', 'statefulset/set');
}

async function uidOf(namespace: Namespace): Promise<string> {
  return await namespace.run(['get', 'pod/set-0', '-o', 'jsonpath={.metadata.uid}', '--ignore-not-found']);
}

async function nodeOf(namespace: Namespace): Promise<string> {
  return await namespace.run(['get', 'pod/set-0', '-o', 'jsonpath={.spec.nodeName}']);
}
