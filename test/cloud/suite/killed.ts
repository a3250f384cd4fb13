import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { CrashPoint, StepName } from '../../../src/volume/step.ts';
import { CallError } from '../../support/client.ts';
import { mountCapability } from '../../support/node-volume.ts';
import { Scratch } from '../../support/scratch.ts';
import type { TestCloud } from '../clouds.ts';
import type { FakeCloud } from '../fake-cloud.ts';
import { Home } from '../home.ts';

const capability = mountCapability();

/** Each step of the life below, with the number of its passes. Steps of the catalog around them are the same moments. */
const passes: readonly (readonly [StepName, number])[] = [
  ['cloud/create', 2],
  ['publication/record', 2],
  ['cloud/attach', 1],
  ['cloud/label', 7],
  ['cloud/grow', 1],
  ['cloud/snapshot', 1],
  ['cloud/detach', 1],
  ['cloud/delete', 3],
];

async function live(home: Home, fake: FakeCloud, machine: string): Promise<void> {
  const again = async <T>(call: (controller: Home['controller']) => Promise<T>): Promise<T> => {
    for (let tries = 0; ; tries++) {
      await home.start();
      try {
        return await call(home.controller);
      } catch (error) {
        assert.ok(error instanceof CallError && tries < 100, String(error));
        const isPassing = ['UNAVAILABLE', 'ABORTED', 'FAILED_PRECONDITION', 'CANCELLED'].includes(error.code);
        assert.ok(isPassing, `${error.name}: ${error.message}`);
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    }
  };
  const volumes = () => fake.volumes.size;
  const { volume } = await again((controller) =>
    controller.CreateVolume({
      name: 'mortal',
      capacity_range: { required_bytes: 1n << 30n },
      volume_capabilities: [capability],
    }),
  );
  const volume_id = volume?.volume_id ?? '';
  assert.equal(volumes(), 1);
  await again((controller) =>
    controller.ControllerPublishVolume({ volume_id, node_id: machine, volume_capability: capability }),
  );
  const [disk] = fake.volumes.values();
  assert.equal(disk?.attachment?.status, 'attached');
  await again((controller) =>
    controller.ControllerExpandVolume({ volume_id, capacity_range: { required_bytes: 2n << 30n } }),
  );
  assert.equal(disk.sizeGiB, 2);
  const { snapshot } = await again((controller) =>
    controller.CreateSnapshot({ name: 'mortal', source_volume_id: volume_id }),
  );
  const snapshot_id = snapshot?.snapshot_id ?? '';
  await again(async (controller) => {
    const { entries } = await controller.ListSnapshots({ snapshot_id });
    if (entries[0]?.snapshot?.ready_to_use !== true) throw new CallError('ListSnapshots', { code: 14 } as never);
  });
  await again((controller) =>
    controller.CreateVolume({
      name: 'restored',
      capacity_range: { required_bytes: 2n << 30n },
      volume_capabilities: [capability],
      volume_content_source: { snapshot: { snapshot_id } },
    }),
  );
  assert.equal(volumes(), 2);
  await again((controller) => controller.DeleteSnapshot({ snapshot_id }));
  await again((controller) => controller.ControllerUnpublishVolume({ volume_id, node_id: machine }));
  assert.equal(disk.attachment, undefined);
  const { entries } = await again((controller) => controller.ListVolumes({}));
  for (const { volume: each } of entries) {
    await again((controller) => controller.DeleteVolume({ volume_id: each?.volume_id ?? '' }));
  }
}

/** The home of a pool is killed before and after each step; the next one goes on with the same calls. */
export function killedTests(cloud: TestCloud): void {
  const [machine] = cloud.machines;
  describe(`a home of kind ${cloud.kind} that is killed`, { concurrency: 4 }, () => {
    for (const [step, count] of passes) {
      for (let pass = 1; pass <= count; pass++) {
        for (const when of ['before', 'after'] as const) {
          test(`${when} ${step} ${pass}`, async () => {
            using scratch = new Scratch('cloud-killed');
            await using fake = await cloud.start();
            fake.instance(machine);
            fake.troubles = { ...fake.troubles, lateMs: 50, workMs: 10 };
            await using home = new Home(cloud, scratch, fake.url);
            const point: CrashPoint = { when, step, pass };
            await home.start(point);
            await live(home, fake, machine);
            await fake.settled();
            // It may have died at the last call.
            await home.start();
            assert.equal(home.deaths, 1, 'it died there');
            assert.deepEqual([[...fake.volumes.values()], [...fake.snapshots.values()]], [[], []]);
          });
        }
      }
    }
  });
}
