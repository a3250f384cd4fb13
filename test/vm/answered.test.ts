import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { AdminClient } from '../../src/admin/client.ts';
import { SeededRandom } from '../crash/seeded-random.ts';
import { type Deed, deeds, type Place } from './answered/deed.ts';
import type { VolatileDisk } from './disk/volatile-disk.ts';
import { startNode } from './node/start-node.ts';

/** One disk and one pool each, so that no flush of one helps another: vda is the node's own. */
const places = deeds.map((deed, index) => {
  const device = `/dev/vd${String.fromCharCode('b'.charCodeAt(0) + index)}`;
  const directory = `/plain/${deed.name}`;
  const mount = (options: string) => `mkdir -p ${directory} && mount ${options} ${device} ${directory}`;
  const make = {
    disk: { pool: `device: ${device}`, format: 'true', mount: 'true' },
    copying: { pool: `directory: ${directory}/pool`, format: `mkfs.ext4 -q -J size=4 ${device}`, mount: mount('') },
    directories: {
      pool: `kind: directory, path: ${directory}/pool, quota: required`,
      format: `mkfs.xfs -q ${device}`,
      mount: mount('-o prjquota'),
    },
  }[deed.on ?? 'disk'];
  return { ...make, config: `  ${deed.name}: { ${make.pool}, sickAfter: 10m }` };
});
const shell = (commands: readonly string[]) => commands.join('\n');

const setup = {
  config: `expansion: node\ndefaultPool: ${deeds[0]?.name}\npools:\n${shell(places.map(({ config }) => config))}\n`,
  pools: deeds.map(({ name }) => name),
  disks: deeds.map(({ name }) => ({ name, sizeGiB: 1 })),
  prepare: shell(places.flatMap(({ format, mount }) => [format, mount])),
};

describe('T06: the power goes at the moment of an answer', () => {
  test('what was answered is there, though the disk kept only what it was told to', async (t) => {
    await using started = await startNode(t, setup);
    const { disks, node } = started;
    node.vm.tunnel(`${node.dataDirectory}/admin.sock`, `${disks[0]?.socketPath}-admin`);
    const admin = new AdminClient(`${disks[0]?.socketPath}-admin`);
    const placeOf = ({ name }: Deed): Place => ({ node, pool: name, admin });
    for (const deed of deeds) await deed.prepare?.(placeOf(deed));
    await node.vm.run('sync');

    await Promise.all(deeds.map((deed) => actAndCut(deed, placeOf(deed), disks)));
    await node.vm.cutPower(new SeededRandom(1));
    node.forget();
    await node.vm.boot();
    await node.mount();
    await node.vm.run(shell(places.map(({ mount }) => mount)));
    await node.start();
    for (const deed of deeds) await t.test(deed.name, () => deed.check(placeOf(deed)));
  });
});

/** From its answer on, nothing reaches the disk. */
async function actAndCut(deed: Deed, place: Place, disks: readonly VolatileDisk[]): Promise<void> {
  await deed.act(place);
  const disk = disks.find(({ name }) => name === deed.name) ?? assert.fail();
  disk.loseAll();
}
