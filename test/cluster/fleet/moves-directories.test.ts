import assert from 'node:assert/strict';
import { fleetTest } from '../harness/fleet/fleet-test.ts';
import { driverIsReady, MovingSet, turnMovesOn } from '../harness/fleet/moving-set.ts';
import { typeAll } from '../harness/fleet/terminal.ts';
import type { Manifest } from '../harness/objects.ts';

const plain =
  'pools:\n  default: {}\n  plain: { kind: directory, path: /var/lib/holdfast/plain }\ndefaultPool: default\n';

/** Entries of other types than the lines, and another name of those. */
const beside =
  '[ -e /data/d ] || { mkdir /data/d; ln /data/log /data/d/name; ln -s nowhere /data/d/link; mkfifo /data/d/fifo; chmod 2751 /data/d; }';

const entries = 'stat -c "%n %A %h %u %g" /data/d /data/d/* | sort';

fleetTest(
  'a claim of a pool of directories moves from node to node and back, and no acknowledged line is lost',
  async (namespace) => {
    const className = `${namespace.name}-plain`;
    const storageClass: Manifest = {
      apiVersion: 'storage.k8s.io/v1',
      kind: 'StorageClass',
      metadata: { name: className },
      provisioner: 'holdfast.csi.dev',
      parameters: { pool: 'plain' },
      volumeBindingMode: 'WaitForFirstConsumer',
    };
    try {
      await configure(plain);
      await namespace.apply(storageClass);
      const set = await MovingSet.start(namespace, { claim: { storageClass: className }, script: beside });
      await set.requirePlan('plain');
      const before = await namespace.exec('set-0', entries);
      for (const to of [set.other, set.first, set.other, set.first]) {
        const acknowledged = await set.written(0);
        await set.move(to);
        await set.requireLines('/data/d/name', acknowledged);
        assert.equal(await namespace.exec('set-0', entries), before);
        // It may be another one now, with the same volume.
        const { name } = await namespace.volumeOf('data-set-0');
        assert.match(await namespace.field(`pv/${name}`, '.spec.nodeAffinity'), new RegExp(`"${to}"`));
      }
      await set.purge();
    } finally {
      // While its pool is there.
      const claimed = await namespace.run(['get', 'pvc', '-o', 'jsonpath={.items[*].spec.volumeName}']);
      const gone = ['--ignore-not-found', '--timeout=240s'];
      await namespace.run(['delete', 'statefulset/set', 'pvc/data-set-0', ...gone]);
      if (claimed !== '') await namespace.wait('--for=delete', `pv/${claimed}`);
      await namespace.remove(`storageclass/${className}`);
      await configure('{}\n');
    }
  },
);

/** Gives all nodes this configuration, with moves between them. */
async function configure(text: string): Promise<void> {
  const patch = JSON.stringify({ data: { 'holdfast.yaml': text } });
  await typeAll([
    `kubectl -n holdfast-system patch configmap holdfast --type merge -p '${patch}'`,
    turnMovesOn,
    'kubectl -n holdfast-system rollout restart daemonset/holdfast',
    driverIsReady,
  ]);
}
