import { clusterTest } from './harness/cluster-test.ts';
import { cluster } from './harness/current.ts';
import type { Namespace } from './harness/namespace.ts';
import { claim, type Manifest, pod } from './harness/objects.ts';

const count = 50;
const names = Array.from({ length: count }, (_, index) => `user-${index}`);

clusterTest(`${count} pods with ${count} new claims, beside as many with emptyDir`, async (namespace) => {
  const { driver } = cluster();
  await tellMemory('at rest');
  const empty = await secondsUntilRunning(
    namespace,
    names.map((name) => pod(name, { volumes: { data: { source: { emptyDir: {} } } } })),
  );
  await namespace.remove(...names.map((name) => `pod/${name}`));
  const claims = await secondsUntilRunning(namespace, [
    ...names.map((name) => claim(name, { size: '64Mi' })),
    ...names.map((name) => pod(name, { volumes: { data: name } })),
  ]);
  await tellMemory(`with ${count} volumes in use`);
  console.log(
    `load: ${count} pods run after ${empty.toFixed(1)} s with emptyDir, ${claims.toFixed(1)} s with new claims: ${(claims / empty).toFixed(2)} times`,
  );
  await driver.ready();
});

async function secondsUntilRunning(namespace: Namespace, objects: readonly Manifest[]): Promise<number> {
  const startedMs = performance.now();
  await namespace.apply(...objects);
  await namespace.running(...names);
  return (performance.now() - startedMs) / 1000;
}

async function tellMemory(when: string): Promise<void> {
  const mebibytes = (bytes: number) => (bytes / 2 ** 20).toFixed(0);
  for (const [name, { ownBytes, residentBytes, mostBytes }] of Object.entries(await cluster().driver.memory())) {
    console.log(
      `memory ${when}: ${name} ${mebibytes(ownBytes)} MiB of its own, ${mebibytes(residentBytes)} resident, ${mebibytes(mostBytes)} at most`,
    );
  }
}
