import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { assertOutlived, leaveKeepsake } from './faults/keepsake.ts';
import { Neighbour } from './faults/neighbour.ts';
import { SickPool } from './faults/sick-pool.ts';
import { faultyDisk, twoPools } from './faults/two-pools.ts';
import type { VirtualMachine } from './machine/virtual-machine.ts';
import { usedVolume } from './node/life.ts';
import { startNode } from './node/start-node.ts';

describe('T07: a disk that fails hurts only itself', () => {
  test('I/O errors: its filesystem shuts down, and is mounted anew when the disk is well and the pods are gone', async (t) => {
    await using started = await startNode(t, twoPools);
    const { node } = started;
    const volumes = [await usedVolume(node, 'sick'), await usedVolume(node, 'sick', 'block')];
    for (const volume of volumes) await leaveKeepsake(node, volume);
    const sick = new SickPool(node, 'sick', volumes);
    const neighbour = await Neighbour.of(node, 'well');

    await faultyDisk.refuseWrites(node.vm);
    await sick.refuses(/in quarantine .*(EIO|ESHUTDOWN)/);
    await neighbour.meanwhile();
    await sick.assertInQuarantine();
    const path = `${volumes[0]?.targetPath}/lost`;
    await assert.rejects(node.vm.task('write', { path, seed: 2, sizeBytes: 4096 }), /EIO|EROFS/);
    await shutDownFilesystem(node.vm);

    await faultyDisk.mend(node.vm);
    await sick.refuses(/Stop the pods/);
    for (const volume of volumes) await volume.leave();
    await sick.recovers();
    await assertOutlived(node, volumes);
    await neighbour.assertUndisturbed(t);
  });
});

/** XFS gives up when its log cannot be written, which may take it half a minute: here it has to write it now. */
async function shutDownFilesystem(vm: VirtualMachine): Promise<void> {
  const pool = `"$(findmnt --noheadings --first-only --output TARGET ${faultyDisk.path})"`;
  await vm.attempt(`touch ${pool}/something; sync --file-system ${pool}`);
  await vm.run(`! ls ${pool} 2>/dev/null`);
}
