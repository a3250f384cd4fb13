import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { SeededRandom } from '../../crash/seeded-random.ts';
import { eventually } from '../../support/eventually.ts';
import { awaitDisks, startNodeWithDisks } from '../disks/node-with-disks.ts';
import { assertKeepsake, assertOutlived, leaveKeepsake } from '../faults/keepsake.ts';
import { conditionOf } from '../faults/pool-sight.ts';
import { usedVolume } from '../node/life.ts';

const random = new SeededRandom(1);
const patienceMs = 600_000;

describe('T02 T07: volumes that are whole disks', () => {
  test('outlive a power cut; one whose disk is pulled is missed alone, and known under another name', async (t) => {
    await using started = await startNodeWithDisks(t, 2);
    const { node } = started;
    const volumes = [await usedVolume(node, 'disks'), await usedVolume(node, 'disks')];
    for (const volume of volumes) await leaveKeepsake(node, volume);

    await node.vm.cutPower(random);
    node.forget();
    await node.vm.boot();
    await node.mount();
    await node.vm.run(awaitDisks(2));
    await node.start();
    for (const volume of volumes) {
      await volume.use();
      await assertKeepsake(node, volume);
    }

    // Of two equal disks either may have been taken for the first volume: its serial number tells.
    const [first, second] = volumes;
    assert.ok(first !== undefined && second !== undefined);
    const source = (await node.vm.run(`findmnt -no SOURCE ${first.targetPath}`)).trim();
    const serial = await node.vm.run(
      `cat /sys/block/${source.replace('/dev/', '').replace(/[0-9]+$/, '')}/device/vpd_pg80`,
    );
    const pulled = started.disks.find(({ name }) => serial.includes(name)) ?? assert.fail(serial);
    await node.vm.pull(pulled, random);
    await eventually(async () => {
      const { abnormal, message } = await conditionOf(node, first.id);
      assert.ok(abnormal);
      assert.match(message, new RegExp(`^Its disk is not here .*${pulled.name}`));
    }, patienceMs);
    assert.equal((await conditionOf(node, second.id)).abnormal, false);
    await assertKeepsake(node, second);

    await node.vm.putBack(pulled);
    await eventually(async () => assert.equal((await conditionOf(node, first.id)).abnormal, false), patienceMs);
    for (const volume of volumes) await volume.leave();
    await first.use();
    const now = (await node.vm.run(`findmnt -no SOURCE ${first.targetPath}`)).trim();
    assert.notEqual(now, source, 'the name was held by what was mounted from it');
    await first.leave();
    await assertOutlived(node, volumes);
  });
});
