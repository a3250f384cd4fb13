import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { ApiServer, freePort } from '../cluster/harness/api-server.ts';
import { Controllers } from '../cluster/harness/controllers.ts';
import { ClusterDirectory } from '../cluster/harness/directory.ts';
import { Namespace } from '../cluster/harness/namespace.ts';
import { adoptionCommands, oldPersistentVolume, oldVolumes } from '../cluster/harness/network/nfs-adoption.ts';
import { claim } from '../cluster/harness/objects.ts';
import { buildPrograms, clusterPrograms } from '../cluster/harness/programs.ts';
import { Scratch } from '../support/scratch.ts';

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
const inHome = 'kubectl -n holdfast-system exec -i deploy/holdfast-files -- holdfast';

test('PersistentVolumes of other drivers are exchanged as docs/nfs.md says, and their claims are bound again', async () => {
  const programs = await buildPrograms(clusterPrograms);
  await using directory = await ClusterDirectory.make();
  using scratch = new Scratch('nfs-adoption');
  const plan = { programs, address: '127.0.0.1', port: await freePort(), serviceRange: '10.96.0.0/16' };
  await using server = await ApiServer.start(directory, { ...plan, hasControllers: true });
  await using _controllers = await Controllers.start(programs, directory, server);
  const { kubectl } = server;
  await using namespace = await Namespace.make(kubectl, 'shop');
  const olds = oldVolumes('nas.example.com');
  const names = olds.map(({ name }) => name);
  await kubectl.apply(olds.map(oldPersistentVolume));
  const asked = { storageClass: 'of-another-driver', accessMode: 'ReadWriteMany', size: '64Mi' } as const;
  await namespace.apply(...names.map((name) => claim(name, { ...asked, volumeName: name })));
  await namespace.bound(...names);

  // The program of the home, beside kubectl.
  writeFileSync(scratch.join('holdfast'), `#!/bin/sh\nexec ${process.execPath} ${main} "$@"\n`, { mode: 0o755 });
  const environment = {
    PATH: `${scratch.path}:${programs}:${process.env['PATH']}`,
    KUBECONFIG: server.kubeconfig('admin'),
  };
  for (const block of adoptionCommands()) {
    const text = block.replace(inHome, 'holdfast');
    execFileSync('bash', ['-euo', 'pipefail', '-c', text], { cwd: scratch.path, env: environment, stdio: 'inherit' });
  }

  await namespace.bound(...names);
  for (const { directory: kept, name } of olds) {
    const path = '-o=jsonpath={.spec.csi.driver} {.spec.csi.volumeAttributes} {.status.phase}';
    const now = await kubectl.run(['get', 'pv', name, path]);
    assert.match(now, /^files\.holdfast\.csi\.dev .* Bound$/);
    assert.ok(now.includes(kept), now);
  }
  await kubectl.run(['delete', 'pvc', '--namespace', 'shop', '--all']);
  await kubectl.run(['delete', 'pv', ...names]);
});
