import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { CallError } from '../support/client.ts';
import { eventually } from '../support/eventually.ts';
import type { GuestNode } from './node/guest-node.ts';
import { medianLifeMs, newVolume, usedVolume } from './node/life.ts';
import { startNode } from './node/start-node.ts';

const config = `
defaultPool: well
pools:
  well: { device: /dev/vdb, sickAfter: 10m }
  sick: { device: /dev/mapper/sick }
`;
const disks = [
  { name: 'well', sizeGiB: 2 },
  { name: 'sick', sizeGiB: 2 },
];
/** A device that can be suspended, over the disk. */
const prepare = 'dmsetup create sick --table "0 $(blockdev --getsz /dev/vdc) linear /dev/vdc 0"';

const lives = 5;
/** What a disk that hangs may cost volumes on another one. */
const highestRatio = 2;
/** For what the driver finds out by and by. */
const patienceMs = 600_000;
const file = { seed: 1, sizeBytes: 100_000 };

describe('T07: a disk that hangs hurts only itself', () => {
  test('its calls fail with a reason, the others go on, and it comes back by itself', async (t) => {
    await using started = await startNode(t, { config, pools: ['well', 'sick'], disks, prepare });
    const { node } = started;
    const inSick = await usedVolume(node, 'sick');
    const path = `${inSick.targetPath}/file`;
    await node.vm.task('write', { ...file, path });
    const beforeMs = await medianLifeMs(node, 'well', lives);

    await node.vm.run('dmsetup suspend --nolockfs --noflush sick');
    // The first ones are still waiting for the disk when it is found to be sick; none waits for ever.
    const first = newVolume(node, 'sick');
    await assert.rejects(first.create(32n << 20n), refusedWithReason);
    const duringMs = await medianLifeMs(node, 'well', lives);
    const probeMs = await probeTime(node);
    await assert.rejects(newVolume(node, 'sick').create(32n << 20n), refusedWithReason);
    await assert.rejects(inSick.snapshot('of-the-sick'), refusedWithReason);
    await assert.rejects(inSick.delete(), refusedWithReason);
    assert.equal(await capacityBytes(node, 'sick'), 0n);
    assert.ok((await capacityBytes(node, 'well')) > 0n);
    assert.equal(await isAbnormal(node, inSick.id), true);

    await node.vm.run('dmsetup resume sick');
    await eventually(async () => assert.ok((await capacityBytes(node, 'sick')) > 0n), patienceMs);
    assert.equal(await isAbnormal(node, inSick.id), false);
    await first.create(32n << 20n);
    await first.delete();
    await node.vm.task('checksums', [{ path, sizeBytes: file.sizeBytes }]);
    await inSick.leave();
    await inSick.delete();

    const afterMs = await medianLifeMs(node, 'well', lives);
    // Of the two times in good health the longer: who else uses this machine changes from minute to minute.
    const ratio = duringMs / Math.max(beforeMs, afterMs);
    const figures = [beforeMs, duringMs, afterMs, probeMs].map((ms) => ms.toFixed(0));
    t.diagnostic(`a life in the other pool took ${figures[0]} ms before, ${figures[1]} during, ${figures[2]} after`);
    t.diagnostic(`ratio ${ratio.toFixed(2)}; Probe ${figures[3]} ms`);
    assert.ok(ratio <= highestRatio, `the other pool is ${ratio.toFixed(1)} times as slow while a disk hangs`);
    assert.ok(probeMs < beforeMs, `Probe takes ${probeMs} ms while a disk hangs`);
  });
});

function refusedWithReason(error: unknown): true {
  assert.ok(error instanceof CallError, String(error));
  assert.ok(['ABORTED', 'UNAVAILABLE'].includes(error.code), `${error.code}: ${error.message}`);
  return true;
}

async function capacityBytes(node: GuestNode, pool: string): Promise<bigint> {
  return (await node.client.controller.GetCapacity({ parameters: { pool } })).available_capacity;
}

async function isAbnormal(node: GuestNode, volume_id: string): Promise<boolean | undefined> {
  const { status } = await node.client.controller.ControllerGetVolume({ volume_id });
  return status?.volume_condition?.abnormal;
}

async function probeTime(node: GuestNode): Promise<number> {
  const startedMs = performance.now();
  const { ready } = await node.client.identity.Probe({});
  assert.equal(ready?.value, true);
  return performance.now() - startedMs;
}
