import assert from 'node:assert/strict';
import { fleet } from '../harness/fleet/current.ts';
import { fleetTest } from '../harness/fleet/fleet-test.ts';
import { driverIsReady, turnMovesOn } from '../harness/fleet/moving-set.ts';
import { type, typeAll } from '../harness/fleet/terminal.ts';
import { type Manifest, statefulSet } from '../harness/objects.ts';
import { waitFor } from '../harness/waiting.ts';

/** A set of one pod with five claims. */
interface Set {
  readonly name: string;
  readonly storageClass: string;
  readonly isBlock: boolean;
}

const disks = ['a', 'b', 'c', 'd', 'e'];

/** Writes a word to each of its volumes, unless it is there. */
function writing({ isBlock, name }: Set): string {
  const lines = disks.map((disk) => {
    const word = `${name}-${disk}`;
    if (isBlock) {
      const path = `/dev/${disk}`;
      return `[ "$(head -c ${word.length} ${path})" = ${word} ] || { printf ${word} > ${path}; sync; }`;
    }
    return `[ -e /${disk}/word ] || { printf ${word} > /${disk}/word; sync; }`;
  });
  return lines.join('\n');
}

function manifestOf(set: Set): Manifest {
  const plan = { storageClass: set.storageClass, volumeMode: set.isBlock ? 'Block' : 'Filesystem' } as const;
  const claims = Object.fromEntries(disks.map((disk) => [disk, plan]));
  return statefulSet(set.name, { claims, script: writing(set) });
}

fleetTest(
  'a node is emptied: 20 claims of several filesystems and of raw blocks move to another one',
  async (namespace) => {
    await typeAll([turnMovesOn, driverIsReady]);
    const [from = assert.fail(), to = assert.fail(), ...others] = fleet().nodes.map(({ name }) => name);
    const filesystems = ['ext4', 'xfs', 'btrfs'];
    const sets: readonly Set[] = [
      ...filesystems.map((name) => ({ name, storageClass: `${namespace.name}-${name}`, isBlock: false })),
      { name: 'raw', storageClass: 'holdfast-block', isBlock: true },
    ];
    const cordon = async (how: 'cordon' | 'uncordon', ...nodes: readonly string[]) => {
      assert.equal((await type(`kubectl ${how} ${nodes.join(' ')}`)).status, 0);
    };
    try {
      await namespace.apply(
        ...filesystems.map((fsType) => ({
          apiVersion: 'storage.k8s.io/v1',
          kind: 'StorageClass',
          metadata: { name: `${namespace.name}-${fsType}` },
          provisioner: 'holdfast.csi.dev',
          parameters: { 'csi.storage.k8s.io/fstype': fsType },
          volumeBindingMode: 'WaitForFirstConsumer',
        })),
      );
      await cordon('cordon', to, ...others);
      await namespace.apply(...sets.map(manifestOf));
      const ready = async (set: Set) =>
        await namespace.wait('--for=jsonpath={.status.readyReplicas}=1', `statefulset/${set.name}`);
      for (const set of sets) await ready(set);
      await cordon('uncordon', to, ...others);
      await cordon('cordon', from);
      const { status, stderr, stdout } = await type(`kubectl holdfast move --from ${from} --to ${to} --yes`);
      assert.equal(status, 0, `${stdout}\n${stderr}`);
      for (const set of sets) {
        await waitFor(`${set.name} to run there`, async () => {
          assert.equal(await namespace.run(['get', `pod/${set.name}-0`, '-o', 'jsonpath={.spec.nodeName}']), to);
          await ready(set);
        });
        for (const disk of disks) {
          const word = `${set.name}-${disk}`;
          const read = set.isBlock ? `head -c ${word.length} /dev/${disk}` : `cat /${disk}/word`;
          assert.equal(await namespace.exec(`${set.name}-0`, read), word);
          const { handle } = await namespace.volumeOf(`${disk}-${set.name}-0`);
          assert.deepEqual(fleet().nodesWith(handle), [to]);
          // The copy that was left.
          const purged = await type(`kubectl holdfast trash purge ${handle} --node ${from}`);
          assert.equal(purged.status, 0, purged.stderr);
        }
      }
      for (const set of sets) await namespace.remove(`statefulset/${set.name}`);
    } finally {
      await cordon('uncordon', from, to, ...others);
      for (const fsType of filesystems) await namespace.remove(`storageclass/${namespace.name}-${fsType}`);
    }
  },
  { timeoutMs: 1_800_000 },
);
