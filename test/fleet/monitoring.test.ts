import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Settling, settlingMs } from '../../src/fleet/controller/health.ts';
import { alertsOf, rulesIn, sicknessTests, testRules } from '../metrics/rules.ts';
import { driverCommand } from '../support/driver.ts';
import { eventually } from '../support/eventually.ts';
import { Exposition } from '../support/exposition.ts';
import { monitored } from '../support/monitoring.ts';
import { Scratch } from '../support/scratch.ts';
import { ApiDouble } from './support/api-double.ts';
import { ControllerProcess } from './support/controller-process.ts';
import { LinkedNode, volumeOn } from './support/fleet.ts';

const page = readFileSync(fileURLToPath(new URL('../../docs/fleet.md', import.meta.url)), 'utf8');
const general = readFileSync(fileURLToPath(new URL('../../docs/metrics.md', import.meta.url)), 'utf8');

/** Asks a replica over HTTP. */
async function ask(controller: ControllerProcess, path: string): Promise<{ status: number; text: string }> {
  const { port } = await controller.logged('listening for monitoring');
  const response = await fetch(`http://127.0.0.1:${port}${path}`, { headers: { connection: 'close' } });
  return { status: response.status, text: await response.text() };
}

describe("the controller's health and metrics", () => {
  test('it is alive at once, and ready when it knows which nodes there are and has heard of them', async () => {
    using scratch = new Scratch('fleet-health');
    await using api = await ApiDouble.start();
    api.known.csiNodes.add('node-a');
    api.known.refused.add('/csinodes');
    await using controller = await ControllerProcess.start(scratch, api, 'first', driverCommand, monitored);
    assert.equal((await ask(controller, '/healthz')).status, 200);
    const early = await ask(controller, '/readyz');
    assert.equal(early.status, 503);
    assert.match(early.text, /Kubernetes has not said yet which nodes/);
    api.known.refused.clear();
    const isReady = (expected: number, text: RegExp) =>
      eventually(async () => {
        const answer = await ask(controller, '/readyz');
        assert.equal(answer.status, expected);
        assert.match(answer.text, text);
      });
    await isReady(503, /waits for the links of its nodes.*0 of 1 nodes are there; node-a is away since \d/);
    {
      await using _a = await LinkedNode.start(api, 'node-a', [controller]);
      await isReady(200, /1 of 1 nodes are there/);
    }
    // A node that goes away is no reason to restart or to keep sidecars waiting.
    await isReady(200, /0 of 1 nodes are there; node-a is away since \d/);
  });

  test('a node that stays away is waited for a minute', () => {
    const node = (name: string, isThere: boolean) => ({
      name,
      isLinked: isThere,
      hasTold: isThere,
      closedPools: [],
      sinceMs: 0,
    });
    const settling = new Settling();
    assert.equal(settling.isOver({ areNodesKnown: false, nodes: [] }, 0), false);
    assert.equal(settling.isOver({ areNodesKnown: true, nodes: [node('a', true), node('b', false)] }, 1), false);
    // Each once is enough.
    const other = new Settling();
    other.isOver({ areNodesKnown: true, nodes: [node('a', true), node('b', false)] }, 0);
    assert.equal(other.isOver({ areNodesKnown: true, nodes: [node('a', false), node('b', true)] }, 1), true);
    const nodes = [node('a', false), node('b', false)];
    assert.equal(settling.isOver({ areNodesKnown: true, nodes }, settlingMs), false);
    assert.equal(settling.isOver({ areNodesKnown: true, nodes }, 1 + settlingMs), true);
    assert.equal(settling.isOver({ areNodesKnown: true, nodes: [...nodes, node('c', false)] }, 2 + settlingMs), true);
  });

  test('the metrics are those of docs/fleet.md: links, who is missing, calls by node and outcome, refusals', async () => {
    using scratch = new Scratch('fleet-metrics');
    await using api = await ApiDouble.start();
    for (const name of ['node-a', 'node-b']) api.known.csiNodes.add(name);
    await using controller = await ControllerProcess.start(scratch, api, 'first', driverCommand, monitored);
    await using _a = await LinkedNode.start(api, 'node-a', [controller]);
    await using stranger = await LinkedNode.start(api, 'node-b', [controller], { user: 'system:anonymous' });
    await controller.logged('linked', { node: 'node-a' });
    await controller.logged('a link was refused');
    using client = controller.connect();
    await client.controller.CreateVolume(volumeOn('node-a', 'pvc-1'));
    const exposed = new Exposition((await ask(controller, '/metrics')).text);
    assert.equal(exposed.value('holdfast_fleet_nodes'), 2);
    assert.equal(exposed.value('holdfast_fleet_links'), 1);
    assert.equal(exposed.value('holdfast_fleet_calls_total', { node: 'node-a', outcome: 'OK' }), 1);
    assert.ok(exposed.value('holdfast_fleet_links_refused_total', { reason: 'token' }) >= 1);
    assert.ok(exposed.value('holdfast_fleet_node_missing_since_seconds', { node: 'node-b' }) > 1.7e9);
    assert.equal(stranger.name, 'node-b');

    const documented = new Map<string, string[]>();
    for (const [, names = '', labels = ''] of page.matchAll(/^\|([^|]*`holdfast_[a-z_]+`[^|]*)\|([^|]*)\|/gm)) {
      for (const name of quoted(names)) documented.set(name, quoted(labels));
    }
    const own = [...exposed.families].filter(([name]) => name.startsWith('holdfast_'));
    assert.deepEqual([...documented.keys()].sort(), own.map(([name]) => name).sort());
    for (const [name, { samples }] of own) {
      assert.deepEqual(documented.get(name), [...new Set(samples.flatMap(({ labels }) => Object.keys(labels)))], name);
    }
    // What any process has is told of where the driver's are.
    for (const name of exposed.families.keys()) assert.ok(`${page}${general}`.includes(`\`${name}\``), name);
  });

  test('each alert is raised by its sickness alone', () => {
    const target = 'job="holdfast-system/holdfast-controller", instance="10.0.0.1:9808", pod="a"';
    const other = 'job="holdfast-system/holdfast-controller", instance="10.0.0.2:9808", pod="b"';
    const healthy = {
      [`up{${target}}`]: '1x60',
      [`up{${other}}`]: '1x60',
      [`holdfast_fleet_nodes{${target}}`]: '2x60',
      // A node that has been away for a moment.
      [`holdfast_fleet_node_missing_since_seconds{${target}, node="n"}`]: '_x10 600x5 _x45',
      [`holdfast_fleet_calls_total{${target}, node="n", outcome="OK"}`]: '0+5x60',
      [`holdfast_fleet_calls_total{${target}, node="n", outcome="REFUSED"}`]: '1x60',
    };
    const sicknesses: Readonly<Record<string, Readonly<Record<string, string>>>> = {
      // The pods are gone.
      HoldfastControllerAbsent: { [`up{${target}}`]: '_x60', [`up{${other}}`]: '_x60' },
      HoldfastControllerDown: { [`up{${other}}`]: '0x60' },
      HoldfastNodeWithoutLink: {
        [`holdfast_fleet_node_missing_since_seconds{${target}, node="n"}`]: '_x10 600x50',
      },
      HoldfastNodeCallsRefused: {
        [`holdfast_fleet_calls_total{${target}, node="n", outcome="REFUSED"}`]: '0+3x60',
      },
    };
    const rules = rulesIn('deploy/fleet/monitoring/alerts.yaml');
    assert.deepEqual(alertsOf(rules), Object.keys(sicknesses));
    const { said, status } = testRules(sicknessTests(healthy, sicknesses), rules);
    assert.equal(status, 0, said);
  });
});

function quoted(cell: string): string[] {
  return Array.from(cell.matchAll(/`([a-z_]+)`/g), ([, word = '']) => word);
}
