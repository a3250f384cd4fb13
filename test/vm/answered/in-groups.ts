import type { TestContext } from 'node:test';
import { cutAtAnswers } from './cut-at-answers.ts';
import { deeds as allDeeds } from './deed.ts';

/** Those of a pool that has its disk. */
const deeds = allDeeds.filter(({ on }) => on === undefined);
const groups = deeds.map(({ name }, index) => {
  const device = `/dev/vd${String.fromCharCode('b'.charCodeAt(0) + index)}`;
  return `lvm vgcreate --yes vg-${name} ${device}`;
});
/** On the node's own disk, with the driver's data. */
const keyFile = '/data/pool.key';

export interface GroupPools {
  /** Keys of each pool's section. */
  readonly keys?: string;
  readonly encryption?: 'luks2';
}

/** In as many volume groups of one disk as there are deeds. */
export async function cutAtAnswersInGroups(t: TestContext, { encryption, keys = '' }: GroupPools = {}): Promise<void> {
  const allKeys = encryption === undefined ? keys : `${keys}encryption: { keyFile: ${keyFile} }, `;
  const pools = deeds.map(({ name }) => `  ${name}: { kind: lvm, volumeGroup: vg-${name}, ${allKeys}sickAfter: 10m }`);
  const setup = {
    config: `expansion: node\ndefaultPool: ${deeds[0]?.name}\npools:\n${pools.join('\n')}\n`,
    pools: deeds.map(({ name }) => name),
    disks: deeds.map(({ name }) => ({ name, sizeGiB: 1 })),
    prepare: [`head -c 32 /dev/urandom | base64 >${keyFile}`, ...groups, 'sync'].join(' && '),
  };
  await cutAtAnswers(t, { deeds, setup, encryption, afterBoot: 'true' });
}
