import { describe, test } from 'node:test';
import { cutAtAnswers } from './answered/cut-at-answers.ts';
import { deeds } from './answered/deed.ts';

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
    await cutAtAnswers(t, { deeds, setup, afterBoot: shell(places.map(({ mount }) => mount)) });
  });
});
