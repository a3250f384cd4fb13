import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { z } from 'zod';
import { fleetShapes } from '../../src/cli/fleet/shapes.ts';
import { holdfast } from '../support/command.ts';
import { driverCommand } from '../support/driver.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import { ApiDouble } from './support/api-double.ts';
import { ControllerProcess } from './support/controller-process.ts';
import { LinkedNode, volumeOn } from './support/fleet.ts';
import { type Seen, Viewer, viewed } from './support/viewer.ts';

const lists = ['nodes', 'pools', 'volumes', 'snapshots', 'trash', 'who', 'export'];

/** A table's rows by the titles of its columns; columns are two spaces apart. */
function rowsOf({ result }: Seen): Record<string, string>[] {
  const [head = '', ...lines] = result.split('\n');
  const titles = [...head.matchAll(/\S+(?: \S+)*/g)];
  assert.equal(titles[0]?.[0], 'NODE');
  return lines.map((line) => {
    const cells = line.trim().split(/ {2,}/);
    return Object.fromEntries(titles.map(([title], index) => [title, cells[index] ?? '']));
  });
}

/** Nothing is missing, and nothing is there that docs/json.md does not have. */
function assertStrict(schema: z.ZodType, text: string): void {
  const printed: unknown = JSON.parse(text);
  assert.deepEqual(schema.parse(printed), printed);
}

describe('one view of the fleet', () => {
  test('two real drivers and one that is away: tables, JSON, one volume by its claim, export, and what is missing', async () => {
    using scratch = new Scratch('fleet-view');
    await using api = await ApiDouble.start();
    for (const name of ['node-a', 'node-b', 'node-c']) api.known.csiNodes.add(name);
    await using controller = await ControllerProcess.start(scratch, api, 'first', driverCommand, viewed);
    await using a = await LinkedNode.start(api, 'node-a', [controller]);
    await using _b = await LinkedNode.start(api, 'node-b', [controller]);
    for (const node of ['node-a', 'node-b']) await controller.logged('inventory complete', { node });
    using client = controller.connect();
    const make = async (node: string, name: string, claim: string) => {
      const parameters = {
        'csi.storage.k8s.io/pvc/namespace': 'shop',
        'csi.storage.k8s.io/pvc/name': claim,
        'csi.storage.k8s.io/pv/name': name,
        undelete: '1h',
      };
      const { volume } = await client.controller.CreateVolume({ ...volumeOn(node, name), parameters });
      return volume?.volume_id ?? '';
    };
    const first = await make('node-a', 'pvc-1', 'data');
    const second = await make('node-b', 'pvc-2', 'logs');
    const gone = await make('node-b', 'pvc-3', 'gone');
    await client.controller.CreateSnapshot({ source_volume_id: second, name: 'snap-1' });
    await client.controller.DeleteVolume({ volume_id: gone });
    const viewer = new Viewer(api, 'alice', lists);
    const see = (path: string) => viewer.see(controller, `/v1/${path}`);
    const away = /^holdfast: node node-c: it is away since \d{4}-.*Z$/m;
    const json = async <List extends keyof typeof fleetShapes>(list: List, query = '') => {
      const { problems, result } = await see(`${list}?output=json&wait=60${query}`);
      assertStrict(fleetShapes[list], result);
      assert.equal(list === 'export' ? '' : problems, '');
      return JSON.parse(result) as z.infer<(typeof fleetShapes)[List]>;
    };

    const nodes = await see('nodes');
    assert.deepEqual(
      rowsOf(nodes).map((row) => [row['NODE'], row['STATE'], row['VOLUMES'], row['SNAPSHOTS'], row['POOLS']]),
      [
        ['node-a', 'linked', '1', '0', 'default'],
        ['node-b', 'linked', '1', '1', 'default'],
        ['node-c', 'away', '0', '0', '-'],
      ],
    );
    assert.equal(nodes.exitCode, 1);
    assert.deepEqual(
      (await json('nodes')).nodes.map(({ state }) => state),
      ['linked', 'linked', 'away'],
    );

    const volumes = await see('volumes?wait=60');
    assert.equal(volumes.status, 200);
    assert.deepEqual(
      rowsOf(volumes).map((row) => [row['NODE'], row['ID'], row['CLAIM'], row['STATE']]),
      [
        ['node-a', first, 'shop/data', 'detached'],
        ['node-b', second, 'shop/logs', 'detached'],
      ],
    );
    assert.match(volumes.problems, away);
    assert.equal(volumes.exitCode, 1);
    const told = await json('volumes');
    assert.deepEqual(
      told.missing.map(({ node, reason }) => [node, reason]),
      [['node-c', 'away']],
    );
    // The same as on the node itself, but for the node.
    const own = await holdfast(['volumes', '--json'], a.driver.environment);
    assert.deepEqual(told.volumes[0], { node: 'node-a', ...JSON.parse(own.stdout).volumes[0] });

    const { pools } = await json('pools');
    assert.deepEqual(
      pools.map(({ name, node, state }) => [node, name, state]),
      [
        ['node-a', 'default', 'open'],
        ['node-b', 'default', 'open'],
      ],
    );
    assert.deepEqual(
      rowsOf(await see('pools?wait=60')).map((row) => row['NAME']),
      ['default (default)', 'default (default)'],
    );
    assert.equal((await json('snapshots')).snapshots[0]?.node, 'node-b');
    assert.equal(rowsOf(await see('snapshots?wait=60'))[0]?.['SOURCE'], second);
    assert.deepEqual(
      (await json('trash')).volumes.map(({ id, node }) => [node, id]),
      [['node-b', gone]],
    );
    assert.equal(rowsOf(await see('trash?wait=60'))[0]?.['CLAIM'], 'shop/gone');

    // Where a volume is is known of its id, and of no claim: then the one that is away could have it, too.
    const byId = await see(`volumes?volume=${second}&wait=60`);
    assert.match(byId.result, /^Node +node-b$/m);
    assert.equal(byId.exitCode, 0, byId.problems);
    const byClaim = await see('volumes?volume=shop/data&wait=60');
    assert.match(byClaim.result, new RegExp(`^ID +${first}$`, 'm'));
    assert.match(byClaim.problems, away);
    const who = await see(`who?volume=${second}&wait=60`);
    assert.equal(who.result, `On node node-b:\nNothing holds ${second}.`);
    assert.equal(who.exitCode, 0);
    assert.equal((await json('who', `&volume=${second}`)).volumes[0]?.id, second);
    const none = await see('volumes?volume=shop/none&wait=60');
    assert.equal(none.status, 503);
    assert.match(none.problems, /no volume 'shop\/none' on the nodes that answered; node node-c: it is away since/);
    const onNode = await see('volumes?volume=shop/none&node=node-a&wait=60');
    assert.equal(onNode.status, 404);
    assert.match(onNode.problems, /there is no volume 'shop\/none' on any node/);
    assert.match((await see('volumes?node=node-x')).problems, /There is no node "node-x" with the driver/);

    const exported = await see('export?storage-class=fast&wait=60');
    assert.match(exported.result, /volumeHandle: vol-/);
    assert.equal(exported.result.match(/^kind: PersistentVolume$/gm)?.length, 2);
    const { items } = await json('export', '&storage-class=fast');
    const onItsNode = await holdfast(['export', '--json', '--storage-class', 'fast'], a.driver.environment);
    assert.deepEqual(items[0], JSON.parse(onItsNode.stdout).items[0]);

    // Who may look at some lists alone.
    const guest = new Viewer(api, 'bob', ['volumes']);
    assert.equal((await guest.see(controller, '/v1/volumes?node=node-a&wait=60')).exitCode, 0);
    const refused = await guest.see(controller, '/v1/who?volume=x');
    assert.equal(refused.status, 403);
    assert.equal(refused.problems, 'holdfast: bob may not look at who: RBAC lets it no "get" of who.holdfast.csi.dev');

    // All there: all is well.
    await using _c = await LinkedNode.start(api, 'node-c', [controller]);
    await controller.logged('inventory complete', { node: 'node-c' });
    await eventually(async () => {
      const all = await see('volumes?wait=60');
      assert.equal(all.problems, '');
      assert.equal(all.exitCode, 0);
    });
    const log = controller.output();
    for (const { token } of [viewer, guest]) assert.ok(!log.includes(token), 'a token is in the log');
  });
});
