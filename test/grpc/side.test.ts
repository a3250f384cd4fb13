import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { after, describe, test } from 'node:test';
import { serializeNote } from '../../src/pool/on-node/volume-notes.ts';
import { fileNameOf, parseHandle } from '../../src/volume/handle.ts';
import { CallError } from '../support/client.ts';
import { holdfast } from '../support/command.ts';
import { DriverProcess, environmentFor } from '../support/driver.ts';
import { mountCapability } from '../support/node-volume.ts';
import { Scratch } from '../support/scratch.ts';

describe('HOLDFAST_SIDE', () => {
  const scratch = new Scratch('side');
  after(() => scratch[Symbol.dispose]());

  test('node: a process that needs no configuration, and has the node service alone', async () => {
    await using driver = await DriverProcess.start(scratch, { environment: { HOLDFAST_SIDE: 'node' } });
    using client = driver.connect();
    assert.equal((await client.identity.GetPluginInfo({})).name, 'files.holdfast.csi.dev');
    assert.equal((await client.identity.Probe({})).ready?.value, true);
    assert.equal((await client.node.NodeGetInfo({})).accessible_topology, null);
    await assert.rejects(client.controller.ControllerGetCapabilities({}), (error) => {
      return error instanceof CallError && error.code === 'UNIMPLEMENTED';
    });
    // No kind says so before one is there.
    const stage = client.node.NodeStageVolume({
      volume_id: 'a volume',
      staging_target_path: `${driver.kubeletDirectory}/staging`,
      volume_capability: mountCapability('MULTI_NODE_MULTI_WRITER'),
      volume_context: { kind: 'none-of-ours' },
    });
    await assert.rejects(stage, /"none-of-ours" is not known on this node/);
  });

  test('node: commands work where there are no pools', async () => {
    const environment = { HOLDFAST_SIDE: 'node' };
    await using _driver = await DriverProcess.start(scratch, { environment });
    const run = (...words: string[]) => holdfast(words, environmentFor(scratch, { environment }));
    assert.deepEqual((await run('pools', '--json')).code, 0);
    assert.deepEqual((await run('volumes')).code, 0);
    const handle = parseHandle('nas/export/a') ?? assert.fail();
    const context = { server: 'nas.example.com', share: '/export', subDir: 'a' };
    const note = serializeNote({
      kind: 'nfs',
      volume: { handle, content: { type: 'directory' }, provisioning: 'thin', context },
      paths: ['/var/lib/kubelet/a'],
    });
    writeFileSync(scratch.join('data', 'volumes', `${fileNameOf(handle)}.json`), note);
    writeFileSync(scratch.join('data', 'volumes', 'torn.json'), note.slice(0, 20));
    const listed = await run('volumes');
    assert.match(
      listed.stdout,
      /^VOLUME +KIND +SERVER +CONTENT +STATE\nnas\/export\/a +nfs +nas.example.com +directory +not mounted$/m,
    );
    assert.match(listed.stderr, /the note .*torn\.json cannot be read/);
    const one = await run('volumes', 'nas/export/a');
    assert.match(one.stdout, /^path +\/var\/lib\/kubelet\/a \(not mounted\)$/m);
    const { onNode } = JSON.parse((await run('volumes', '--json')).stdout);
    const paths = [{ path: '/var/lib/kubelet/a', isMounted: false }];
    const sight = { handle, kind: 'nfs', server: 'nas.example.com', content: { type: 'directory' }, paths };
    assert.deepEqual(onNode, [sight]);
    const missing = await run('volumes', 'nas/export/b');
    assert.equal(missing.code, 1);
    assert.match(missing.stderr, /volume nas\/export\/b is not in use on this node/);
    const { findings } = JSON.parse((await run('doctor', '--json')).stdout);
    const checks: readonly { check: string; status: string }[] = findings;
    for (const check of ['NFS client of the kernel', 'NVMe over TCP', 'iSCSI']) {
      // A node needs no kind that none of its volumes is of.
      assert.match(checks.find((each) => each.check === check)?.status ?? '', /^(ok|warn)$/);
    }
    const who = await run('who', 'server/share');
    assert.match(who.stderr, /volume server\/share is not in use on this node/);
  });

  test('home without pools: the sidecars are served for volumes that PersistentVolumes name', async () => {
    const environment = { HOLDFAST_SIDE: 'home', HOLDFAST_DRIVER_NAME: 'disks.holdfast.csi.dev' };
    const config = 'attach: required\npools: {}\n';
    await using driver = await DriverProcess.start(scratch, { environment, config });
    using client = driver.connect();
    assert.equal((await client.identity.Probe({})).ready?.value, true);
    const named = {
      volume_id: 'database',
      node_id: 'node-1',
      volume_capability: mountCapability('SINGLE_NODE_WRITER'),
    };
    const volume_context = {
      nqn: 'nqn.2026-01.org.example:s',
      portals: '10.0.0.1',
      nguid: '0123456789abcdef0123456789abcdef',
    };
    assert.deepEqual(await client.controller.ControllerPublishVolume({ ...named, volume_context }), {
      publish_context: {},
    });
    await client.controller.ControllerUnpublishVolume(named);
    // Only the node can ask the target.
    const grown = { volume_id: 'database', capacity_range: { required_bytes: 1n << 30n } };
    const answer = { capacity_bytes: 1n << 30n, node_expansion_required: true };
    assert.deepEqual(await client.controller.ControllerExpandVolume(grown), answer);
    const own = client.controller.ControllerExpandVolume({ ...grown, volume_id: 'vol-aaaaaaaaaaaaaaaaaaaaaaaaaa' });
    await assert.rejects(own, (error) => error instanceof CallError && error.code === 'NOT_FOUND');
    const made = client.controller.CreateVolume({
      name: 'a',
      volume_capabilities: [mountCapability('SINGLE_NODE_WRITER')],
    });
    await assert.rejects(made, (error) => error instanceof CallError && /pool/.test(error.message));
  });

  const refused: Readonly<Record<string, readonly [string | undefined, string | undefined, RegExp]>> = {
    'a home without pools': ['home', undefined, /HOLDFAST_SIDE: 'home' needs pools that every node can reach/],
    'a home with pools of its node': ['both', 'pools:\n  fast: {}\n', /HOLDFAST_SIDE: 'both' needs pools/],
    'no pools of this node': [undefined, 'pools: {}\n', /pools: name at least one pool/],
    'a node with pools': ['node', 'pools:\n  fast: {}\n', /HOLDFAST_SIDE: a node needs no pools/],
    'another word': ['nodes', undefined, /HOLDFAST_SIDE: 'nodes' must be one of home, node, both/],
  };
  for (const [what, [side, config, message]] of Object.entries(refused)) {
    test(`refused: ${what}`, async () => {
      const environment = side === undefined ? {} : { HOLDFAST_SIDE: side };
      const driver = DriverProcess.spawn(scratch, { environment, ...(config === undefined ? {} : { config }) });
      assert.equal((await driver.ended()).code, 2);
      assert.match(driver.output(), message);
    });
  }
});
