import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { pino } from 'pino';
import { show } from '../../src/cli/fleet/view.ts';
import { contract, encode } from '../../src/csi/contract.ts';
import type * as wire from '../../src/csi/generated/types.ts';
import type { Draft } from '../../src/csi/handler.ts';
import { FleetMoves } from '../../src/fleet/controller/fleet-moves.ts';
import { FleetState } from '../../src/fleet/controller/fleet-state.ts';
import { NodeSession } from '../../src/fleet/controller/node-session.ts';
import { Sessions } from '../../src/fleet/controller/sessions.ts';
import type { NodePipe } from '../../src/fleet/node/node-link.ts';
import { type ListName, wishesOf } from '../../src/fleet/view/request.ts';
import { volumeIdFor } from '../../src/volume/id.ts';
import { Random } from '../support/random.ts';
import { MemoryLink } from './support/memory-link.ts';

/*
 * What nodes of all kinds make the view say: old ones, hung ones, and those that lie. Links are in memory, over the real bytes.
 */

const log = pino({ level: 'silent' });
const partType = contract.lookupType('holdfast.fleet.v1.LookPart');

/** What a node does with a question. */
type Manner = (send: (message: Draft<wire.FromNode>) => void, call: wire.ForwardedCall) => void;

const noRecords = { of: async () => [], lately: async () => [] };

class Fleet {
  readonly state = new FleetState();
  readonly sessions = new Sessions(this.state);
  readonly driverName = 'holdfast.csi.dev';
  readonly moves = new FleetMoves({
    ...{ state: this.state, sessions: this.sessions, log, records: noRecords },
    material: () => undefined,
  });
  asked: string[] = [];

  constructor(names: readonly string[]) {
    this.state.expect(names);
  }

  add(node: string, manner: Manner, put: readonly Draft<wire.InventoryEntry>[] = []): MemoryLink {
    const link = new MemoryLink({ random: new Random(1), cutAfter: Number.POSITIVE_INFINITY, twiceOf: 0 });
    new NodeSession(link.controller, {
      ...{
        node,
        instance: 'test',
        hasOther: () => false,
        driverName: 'holdfast.csi.dev',
        controller: 'memory',
        state: this.state,
        log,
      },
      renew: async () => undefined,
      onReady: (session) => this.sessions.ready(session),
      onEnd: (session) => this.sessions.ended(session),
    });
    const pipe: NodePipe = link.node;
    pipe.onMessage(({ call }) => {
      if (!call) return;
      this.asked.push(node);
      manner((message) => pipe.send(message), call);
    });
    pipe.send({ hello: { node_id: node, driver_name: 'holdfast.csi.dev', driver_version: '1.2.3', protocol: 1 } });
    pipe.send({ inventory: { revision: 1n, starts: true, complete: true, put } });
    return link;
  }

  /** Waits until all links are known. */
  async settled(count: number): Promise<void> {
    while (this.state.nodes.filter(({ hasTold, isLinked }) => hasTold && isLinked).length < count) {
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  async see(list: ListName, query: Record<string, string> = {}) {
    const wishes = wishesOf(list, `?${new URLSearchParams({ wait: '60', ...query })}`);
    const { exitCode, lines } = await show.look(this, wishes, new AbortController().signal);
    const all = [...lines];
    const only = (to: string) => all.filter((line) => line.to === to).map(({ text }) => text);
    return { exitCode, result: only('result'), problems: only('problem') };
  }
}

function volume(node: string, name: string, more: object = {}) {
  return {
    ...{ id: volumeIdFor(node, 'default', name), name, pool: 'default', sizeBytes: '1048576' },
    ...{ content: { type: 'mount', fsType: 'ext4' }, accessModes: ['SINGLE_NODE_WRITER'], provisioning: 'thin' },
    ...{ blockSizeBytes: 512, parameters: {}, createdAt: '2026-01-01T00:00:00Z', undeleteSeconds: 0 },
    ...{ state: 'detached', devices: [], stagedAt: [], publishedAt: [], snapshots: [] },
    ...more,
  };
}

const entry = (node: string, name: string) => ({
  ...{ kind: 'VOLUME' as const, id: volumeIdFor(node, 'default', name), name, pool: 'default' },
});

/** Answers as a driver does. */
function tells(items: readonly unknown[], problems: readonly string[] = []): Manner {
  return (send, { call }) => {
    const texts = items.map((item) => (typeof item === 'string' ? item : JSON.stringify(item)));
    send({ part: { call, response: encode(partType, { items: texts, problems }) } });
    send({ answer: { call } });
  };
}

const sends =
  (...parts: Buffer[]): Manner =>
  (send, { call }) => {
    for (const response of parts) send({ part: { call, response } });
    send({ answer: { call } });
  };

describe('what nodes make the view say', () => {
  test('away, hung, older, failing: each is named with the reason, and the others are shown', async () => {
    const fleet = new Fleet(['a', 'away', 'fails', 'hangs', 'older', 'z']);
    fleet.add('a', tells([volume('a', 'v1')], ['pool second: it is closed']));
    fleet.add('hangs', () => undefined);
    fleet.add('older', (send, { call }) => send({ answer: { call, code: 12, message: 'no such call' } }));
    fleet.add('fails', (send, { call }) => send({ answer: { call, code: 13, message: 'a bug\u001b[2J' } }));
    fleet.add('z', tells([volume('z', 'v2')]));
    await fleet.settled(5);
    const { exitCode, problems, result } = await fleet.see('volumes', { wait: '3' });
    assert.deepEqual(
      result.slice(1).map((line) => line.split(/ +/)[0]),
      ['a', 'z'],
    );
    assert.equal(exitCode, 1);
    const [closed, away = '', ...others] = problems;
    assert.equal(closed, 'holdfast: node a: pool second: it is closed');
    assert.match(away, /^holdfast: node away: it is away since \d{4}-/);
    assert.deepEqual(others, [
      'holdfast: node fails: a bug\\u001b[2J',
      'holdfast: node hangs: it has a link, and did not answer within 3 s',
      'holdfast: node older: its driver is older and does not answer this: look on the node',
    ]);
    const json = await fleet.see('volumes', { output: 'json', wait: '3' });
    const { missing } = JSON.parse(json.result.join('\n'));
    assert.deepEqual(
      missing.map(({ node, reason }: Record<string, string>) => `${node} ${reason}`),
      ['away away', 'fails failed', 'hangs late', 'older older'],
    );
    assert.deepEqual(json.problems, []);
  });

  test('a link that is lost in the middle is one that is away', async () => {
    const fleet = new Fleet(['a']);
    const link = fleet.add('a', () => link.cut('pulled'));
    await fleet.settled(1);
    assert.match((await fleet.see('pools')).problems.join(), /node a: The link to node a was lost \(pulled\)/);
  });

  test('garbage, endless parts and items of no shape are its own shame', async () => {
    const huge = encode(partType, { problems: ['x'.repeat(3 << 20)] });
    const long = volume('long', 'v', { name: 'x'.repeat(5000) });
    const manners: Readonly<Record<string, Manner>> = {
      bytes: sends(Buffer.from([0xff, 0xff, 0xff])),
      crowd: tells(Array.from({ length: 10_001 }, () => '{}')),
      deaf: tells(Array.from({ length: 200 }, () => '{}')),
      digits: tells([volume('digits', 'v', { sizeBytes: '9'.repeat(1000) })]),
      huge: sends(huge),
      escaped: tells([volume('escaped', 'v', { parameters: { text: '"'.repeat(5000) } })]),
      long: tells([long]),
      wrong: tells([volume('wrong', 'v', { claim: Array.from({ length: 10_001 }, () => '') })]),
      many: tells(
        [],
        Array.from({ length: 1000 }, () => 'p'.repeat(1000)),
      ),
      none: tells(['[1', '7', '"x"', { id: 1 }]),
      rude: (send, { call }) => {
        for (let part = 0; part < 50; part++) send({ part: { call, response: encode(partType, {}) } });
      },
    };
    const fleet = new Fleet([...Object.keys(manners), 'z']);
    for (const [node, manner] of Object.entries(manners)) fleet.add(node, manner);
    fleet.add('z', tells([volume('z', 'v')]));
    await fleet.settled(12);
    const { problems, result } = await fleet.see('volumes');
    assert.equal(result.length, 2);
    const of = (node: string) => problems.filter((line) => line.startsWith(`holdfast: node ${node}: `));
    assert.match(of('bytes').join(), /its answer cannot be used: it is invalid/);
    assert.match(of('crowd').join(), /its answer cannot be used: a part of it has too many items/);
    assert.match(
      of('digits').join(),
      /1 of its objects cannot be read here \(sizeBytes: must be written in another form/,
    );
    assert.match(of('huge').join(), /its answer cannot be used: a part of it is too long/);
    for (const node of ['escaped', 'long', 'wrong']) {
      assert.match(
        of(node).join(),
        /1 of its objects cannot be read here \(it has too long a text, or too many values\)/,
      );
    }
    assert.equal(of('many').length, 20);
    assert.ok(of('many').every(({ length }) => length < 400));
    assert.match(of('none').join(), /4 of its objects cannot be read here/);
    assert.match(of('rude').join(), /Node rude sent more than it was allowed/);
  });

  test('more than one may tell among others is cut, and there when it alone is asked', async () => {
    const parts = Array.from({ length: 5 }, (_, part) => {
      const items = Array.from({ length: 500 }, (_each, index) =>
        JSON.stringify(volume('a', `v${part}-${index}`, { parameters: { filling: 'f'.repeat(1800) } })),
      );
      return encode(partType, { items });
    });
    const fleet = new Fleet(['a', 'b']);
    fleet.add('a', sends(...parts));
    fleet.add('b', tells([volume('b', 'v')]));
    await fleet.settled(2);
    const { problems, result } = await fleet.see('volumes');
    assert.match(problems.join(), /node a: it has more than is shown of one among others/);
    assert.match(result.at(-1) ?? '', /^b /);
    const alone = await fleet.see('volumes', { node: 'a' });
    assert.equal(alone.result.length, 2501);
    assert.equal(alone.exitCode, 0);
  });

  test('what it says of itself is no other node, moves no cursor, and is told in lines of its own', async () => {
    const evil = volume('evil', 'v', {
      ...{ node: 'good', name: 'a\u001b]0;x\u0007\n1good  vol-x', pool: 'p\u001b[2J\u202e' },
      parameters: { 'csi.storage.k8s.io/pvc/name': 'x' },
    });
    const fleet = new Fleet(['evil', 'good']);
    fleet.add('evil', tells([evil], ['x\nx0\n1fake']));
    fleet.add('good', tells([volume('good', 'v')]));
    await fleet.settled(2);
    const { problems, result } = await fleet.see('volumes');
    assert.equal(result.length, 3);
    assert.equal(problems.length, 1);
    const shown = [...result, ...problems].join('');
    // biome-ignore lint/suspicious/noControlCharactersInRegex: none of these is to be there
    assert.doesNotMatch(shown, /[\u0000-\u001f\u007f-\u009f\u202e]/);
    const json = JSON.parse((await fleet.see('volumes', { output: 'json' })).result.join('\n'));
    assert.deepEqual(
      json.volumes.map(({ node }: { node: string }) => node),
      ['evil', 'good'],
    );
    assert.equal(json.volumes[0].name, evil.name);
  });

  test('a volume by its id is asked of its own node, whatever another says; by a name that two have, neither is hidden', async () => {
    const id = volumeIdFor('good', 'default', 'pvc-1');
    const fleet = new Fleet(['away', 'evil', 'good', 'idle']);
    const copy = { ...volume('evil', 'pvc-1'), id };
    fleet.add('evil', tells([copy]), [{ ...entry('evil', 'pvc-1'), id }]);
    fleet.add('good', tells([volume('good', 'pvc-1')]), [entry('good', 'pvc-1')]);
    // What nobody asked for is not shown.
    fleet.add('idle', tells([volume('idle', 'other')]));
    await fleet.settled(3);
    const ofTwo = /name one by its id: '.*' is 2 volumes, .*pool default of node evil.*pool default of node good/;
    await assert.rejects(fleet.see('volumes', { volume: id }), ofTwo);
    assert.deepEqual(fleet.asked.sort(), ['evil', 'good']);
    assert.match((await fleet.see('volumes', { volume: id, node: 'good' })).result.join('\n'), /^Node +good$/m);
    fleet.asked = [];
    // A node that is away could have a volume of that name, too.
    await assert.rejects(fleet.see('volumes', { volume: 'pvc-1' }), ofTwo);
    assert.deepEqual(fleet.asked.sort(), ['evil', 'good', 'idle']);
  });

  test('an export is made of what is told, never told itself; of two that are alike there is none', async () => {
    const claim = { 'csi.storage.k8s.io/pvc/namespace': 'shop', 'csi.storage.k8s.io/pvc/name': 'data' };
    const fleet = new Fleet(['evil', 'good']);
    const id = volumeIdFor('good', 'default', 'pvc-2');
    const host = { hostPath: { path: '/' }, nodeAffinity: {}, csi: { driver: 'other' } };
    fleet.add(
      'evil',
      tells([
        volume('evil', 'pvc-1', {
          ...host,
          spec: host,
          parameters: { ...claim, 'csi.storage.k8s.io/pv/name': 'X\n---\n' },
        }),
        volume('evil', 'own', { id: '../../etc' }),
        volume('evil', 'inline', { ephemeral: { handle: 'x' } }),
        { ...volume('evil', 'pvc-3'), id },
      ]),
    );
    fleet.add('good', tells([volume('good', 'pvc-2', { parameters: claim })]));
    await fleet.settled(2);
    const { problems, result } = await fleet.see('export', { 'storage-class': 'fast' });
    const text = result.join('\n');
    assert.equal(text.match(/^kind: PersistentVolume$/gm)?.length, 1);
    assert.match(text, /^ {2}name: pvc-1$/m);
    assert.match(text, /driver: holdfast\.csi\.dev/);
    assert.match(text, /- evil$/m);
    assert.doesNotMatch(text, /hostPath|other|etc/);
    assert.match(problems.join(), new RegExp(`node good: PersistentVolume pvc-2 of ${id} is not printed`));
  });

  test('a thousand nodes, a tenth of them hung: all others are there', async () => {
    const names = Array.from({ length: 1000 }, (_, index) => `node-${String(index).padStart(4, '0')}`);
    const fleet = new Fleet(names);
    for (const [index, name] of names.entries()) {
      fleet.add(name, index % 10 === 0 ? () => undefined : tells([volume(name, 'v')]));
    }
    await fleet.settled(1000);
    const { problems, result } = await fleet.see('volumes', { wait: '8' });
    assert.equal(result.length, 901);
    assert.equal(problems.length, 100);
  });
});
