import type { Mutant } from '../mutant.ts';

const run = { file: 'src/command/run.ts', killer: 'test/command/run.test.ts' } as const;
const output = { file: 'src/command/output.ts', killer: 'src/command/output.test.ts' } as const;

/** How programs of the host are run. */
export const programMutants: readonly Mutant[] = [
  {
    name: "a program does not get the driver's environment",
    ...run,
    text: '    extendEnv: false,\n',
    replacement: '',
  },
  {
    name: 'a program that must finish goes on when nobody reads what it says',
    ...run,
    text: `['sh', '-c', 'trap "" PIPE; exec "$@"', 'sh'] as const`,
    replacement: `['sh', '-c', 'exec "$@"', 'sh'] as const`,
  },
  {
    name: 'an error does not show the argument with a NUL in it',
    ...run,
    text: "  if ([file, ...rest].some((word) => word.includes('\\0'))) throw notStarted(program, 'EINVAL');\n",
    replacement: '',
  },
  {
    name: 'what a program leaves running is not waited for',
    ...run,
    text: '      for (const stream of streams) stream.destroy();\n',
    replacement: '',
  },
  {
    name: 'an output that was cut is not taken for all of it',
    ...run,
    text: "if (stdout.isCut && keep === 'all')",
    replacement: "if (stdout.isCut && keep !== 'all')",
  },
  {
    name: 'the memory for an output has bounds',
    ...output,
    text: 'Math.max(0, this.#usedBytes - this.#limitBytes)',
    replacement: '0',
  },
  {
    name: 'the memory for a line has bounds',
    ...output,
    text: '(this.#rest + first).slice(0, longestLine)',
    replacement: 'this.#rest + first',
  },
  {
    name: 'cryptsetups of the whole driver wait for a place',
    file: 'src/pool/layers/luks/programs.ts',
    killer: 'src/pool/layers/luks/programs.test.ts',
    text: 'if (this.#taken.size < this.#limit) {',
    replacement: 'if (this.#taken.size < 1000) {',
    only: 'EN02',
  },
  {
    name: 'a pool that is given up leaves its places of cryptsetup to others',
    file: 'src/pool/layers/luks/programs.ts',
    killer: 'src/pool/layers/luks/programs.test.ts',
    text: '      places.leave(owner);\n',
    replacement: '',
    only: 'EN03',
  },
  {
    name: 'what LVM says beside a report is heard',
    file: 'src/pool/kinds/lvm/commands/settings.ts',
    killer: 'src/pool/kinds/lvm/commands/settings.test.ts',
    text: "'log{report_command_log=0}'",
    replacement: "''",
  },
  {
    name: 'no threshold of the node closes a thin pool',
    file: 'src/pool/kinds/lvm/commands/settings.ts',
    killer: 'src/pool/kinds/lvm/commands/settings.test.ts',
    text: '[withoutThreshold, patient]',
    replacement: '[patient]',
  },
  {
    name: 'another volume group of its name is not the pool’s',
    file: 'src/pool/kinds/lvm/volume-group.ts',
    killer: 'src/pool/kinds/lvm/volume-group.test.ts',
    text: '    if (told !== undefined) this.#requireSame(told);\n',
    replacement: '',
    only: 'lvm 4',
  },
  {
    name: 'a volume is called gone only by a group that is whole',
    file: 'src/pool/kinds/lvm/volume-group.ts',
    killer: 'src/pool/kinds/lvm/volume-group.test.ts',
    text: '    await this.refresh();\n    if (this.isIncomplete()) throw incompleteGroup(this.poolName, this.name);\n  }\n\n  /** Makes durable what LVM',
    replacement: '  }\n\n  /** Makes durable what LVM',
    only: 'gone only if',
  },
  {
    name: 'changes of tags come one after another',
    file: 'src/pool/kinds/lvm/volume-group.ts',
    killer: 'src/pool/kinds/lvm/volume-group.test.ts',
    text: 'const turn = last.then(() => this.#retag(lvName, newTagsOf));',
    replacement: 'const turn = Promise.resolve().then(() => this.#retag(lvName, newTagsOf));',
    only: 'lvm 9',
  },
  {
    name: 'the legs of a mirror have no disk in common',
    file: 'src/pool/kinds/lvm/layout.ts',
    killer: 'src/pool/kinds/lvm/layout.test.ts',
    text: '!disks.some((disk) => first.disks.includes(disk))',
    replacement: '!disks.some((disk) => first.path === disk)',
    only: 'lvm 7',
  },
  {
    name: 'what others have suspended is theirs to resume',
    file: 'src/pool/kinds/lvm/names.ts',
    killer: 'src/pool/kinds/lvm/names.test.ts',
    text: 'name === thinLvName || idOfLvName(name) !== undefined',
    replacement: 'name === thinLvName || name !== undefined',
    only: 'lvm 6',
  },
  {
    name: 'what is encrypted is not called gone while its keys are there',
    file: 'src/pool/catalog/unreadable.ts',
    killer: 'src/pool/catalog/unreadable.test.ts',
    text: '    if (!isForWantOfRoom(error)) throw error;\n',
    replacement: '',
  },
];
