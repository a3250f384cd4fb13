import type { Mutant } from '../mutant.ts';

const pool = { killer: 'test/cloud/ebs-pool.test.ts' } as const;
const node = { killer: 'test/cloud/ebs-node.test.ts' } as const;
const firstUse = { file: 'src/pool/cloud-disk/attached/first-use.ts', ...node } as const;

/** Disks of a cloud. */
export const cloudMutants: readonly Mutant[] = [
  {
    name: 'a disk without the tags of its pool is not deleted',
    file: 'src/pool/cloud-disk/disks.ts',
    ...pool,
    text: '    return labels[names.pool] === poolId && labels[names.volume] === id;\n',
    replacement: '    return labels[names.pool] !== undefined && poolId !== id;\n',
    only: 'lost its tags',
  },
  {
    name: 'the cloud is asked to detach whatever it shows',
    file: 'src/pool/cloud-disk/attachments.ts',
    ...pool,
    text: 'new Set(instance === undefined ? [] : [instance])',
    replacement: 'new Set<string>()',
    only: 'does not show as attached yet',
  },
  {
    name: 'a disk that another machine has is not attached',
    file: 'src/pool/cloud-disk/attachments.ts',
    ...pool,
    text: '    if (other !== undefined) throw await inUseBy(place, handle, disk, other);\n',
    replacement: '    if (other !== undefined) return;\n',
    only: 'attaches and detaches, twice and late',
  },
  {
    name: 'a volume that was detached once may not be formatted any more',
    file: 'src/pool/cloud-disk/publisher.ts',
    ...pool,
    text: '      if (note !== undefined && note !== used) await this.#disks.label(volumeId, { [fresh]: used });\n',
    replacement: '',
    only: 'attaches and detaches, twice and late',
  },
  {
    name: 'a name that was tried for an attachment is not tried again at once',
    file: 'src/pool/kinds/aws-ebs/ec2/device-names.ts',
    killer: 'src/pool/kinds/aws-ebs/ec2/ec2.test.ts',
    text: '    tried.set(name, nowMs + this.#avoidMs);\n',
    replacement: '',
  },
  {
    name: 'a device that is not blank is not formatted at its first use',
    ...firstUse,
    text: '    if (state === undefined && !(await isBlank(queue, attachment))) return;\n',
    replacement: '',
    only: 'is not formatted if it has',
  },
  {
    name: 'both ends of a device must be zeros',
    ...firstUse,
    text: 'for (const offsetBytes of [0, Math.max(0, end)])',
    replacement: 'for (const offsetBytes of [0].slice(0, end))',
    only: 'data at its end',
  },
  {
    name: 'a blank device that was at another node is not formatted',
    file: 'src/pool/cloud-disk/attached/side.ts',
    ...node,
    text: '      if (options.isFirstUse === true) await prepareFirstUse',
    replacement: '      if (options.isFirstUse !== undefined) await prepareFirstUse',
    only: 'after its first node',
  },
  {
    name: 'a volume that a person named is never formatted',
    file: 'src/pool/cloud-disk/attached/side.ts',
    ...node,
    text: '      if (!this.#options.isOwn(volume)) return attachment;\n',
    replacement: '',
    only: 'named by a person',
  },
];
