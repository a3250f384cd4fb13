import assert from 'node:assert/strict';
import { fleet } from '../harness/fleet/current.ts';
import { fleetTest } from '../harness/fleet/fleet-test.ts';
import { type Typed, type } from '../harness/fleet/terminal.ts';
import { claim, pod } from '../harness/objects.ts';

function said({ status, stderr, stdout }: Typed): string {
  assert.equal(status, 0, stderr);
  assert.equal(stderr, '');
  return stdout;
}

fleetTest('kubectl holdfast shows the volumes of three nodes, and whose they are', async (namespace) => {
  const names = fleet().nodes.map(({ name }) => name);
  await namespace.apply(
    ...names.map((name) => claim(name)),
    ...names.map((name) => pod(name, { volumes: { data: name }, node: name })),
  );
  await namespace.running(...names);
  const nodes = said(await type('kubectl holdfast nodes --wait 60'));
  const pools = said(await type('kubectl holdfast pools --wait 60'));
  const volumes = said(await type('kubectl holdfast volumes --wait 60'));
  for (const name of names) {
    const { handle, name: persistentVolume } = await namespace.volumeOf(name);
    assert.match(nodes, new RegExp(`^${name} `, 'm'));
    assert.match(pools, new RegExp(`^${name} +default `, 'm'));
    assert.match(volumes, new RegExp(`^${name} .*${handle}.*${namespace.name}/${name}`, 'm'));
    const who = said(await type(`kubectl holdfast who ${namespace.name}/${name} --wait 60`));
    assert.match(who, new RegExp(`^On node ${name}:`));
    assert.match(who, /sleep|sh/);
    const exported = said(
      await type(`kubectl holdfast export ${namespace.name}/${name} --storage-class holdfast --wait 60`),
    );
    assert.match(exported, new RegExp(`name: ${persistentVolume}`));
  }
});
