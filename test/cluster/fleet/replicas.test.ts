import assert from 'node:assert/strict';
import { makeImmediateClass } from '../harness/fleet/classes.ts';
import { fleet } from '../harness/fleet/current.ts';
import { fleetTest } from '../harness/fleet/fleet-test.ts';
import { claim } from '../harness/objects.ts';
import { killProcess } from '../harness/processes.ts';
import { waitFor } from '../harness/waiting.ts';

const claims = Array.from({ length: 30 }, (_, index) => `data-${index}`);

fleetTest('the replica that makes 30 volumes is killed: each is made, and none twice', async (namespace) => {
  const { driver, nodes } = fleet();
  await using immediate = await makeImmediateClass(namespace);
  const holder = await driver.run(['get', 'lease/holdfast-csi-dev', '-o=jsonpath={.spec.holderIdentity}']);
  const leader = (await driver.controllers()).find(({ pod }) => holder.includes(pod));
  assert.ok(leader, `${holder} is no replica`);
  const names = (await driver.controllers()).map(({ pod }) => pod);
  const uid = await driver.run(['get', `pod/${leader.pod}`, '-o=jsonpath={.metadata.uid}']);
  await namespace.apply(...claims.map((name) => claim(name, { storageClass: immediate.name, size: '64Mi' })));
  const made = () => nodes.flatMap((node) => node.volumes());
  await waitFor('the first volume to be there', () => assert.ok(made().length > 0));
  const before = made().length;
  // The controller and its sidecars, at one go.
  for (const { cgroups, pid } of leader.node.processes()) if (cgroups.includes(uid)) killProcess(pid);
  console.log(`replicas: killed with ${before} of ${claims.length} volumes made`);
  assert.ok(before < claims.length, 'it was killed too late');

  await namespace.bound(...claims);
  const handles = (await namespace.run(['get', 'pv', '-o=jsonpath={.items[*].spec.csi.volumeHandle}'])).split(' ');
  assert.deepEqual(made().sort(), handles.sort());
  assert.equal(new Set(handles).size, claims.length);
  await driver.ready();
  await driver.linked();
  assert.deepEqual((await driver.controllers()).map(({ pod }) => pod).sort(), names.sort());
});
