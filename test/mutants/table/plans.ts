import type { Mutant } from '../mutant.ts';

const plan = { file: 'src/node/plan.ts', killer: 'src/node/plan.test.ts' } as const;
const target = { file: 'src/node/path/target.ts', killer: 'src/node/path/target.test.ts' } as const;
const options = { file: 'src/node/mount-options.ts', killer: 'src/node/mount-options.test.ts' } as const;
const notes = { file: 'src/node/notes.ts', killer: 'src/node/notes.test.ts' } as const;

/** What the node service decides, from what it saw. */
export const planMutants: readonly Mutant[] = [
  {
    name: 'a stage over another mount is refused',
    ...plan,
    text: `    if (at.volumeId !== volumeId) throw otherMount(volumeId, path, at);
    if (facts.noted === 'different' || !isStagedAs(at, wanted)) throw`,
    replacement: "    if (facts.noted === 'different' || !isStagedAs(at, wanted)) throw",
  },
  {
    name: 'a stage with another capability than the noted one is refused',
    ...plan,
    text: "if (facts.noted === 'different' || !isStagedAs(at, wanted)) throw",
    replacement: 'if (!isStagedAs(at, wanted)) throw',
  },
  {
    name: 'a stage with other attributes than the mounted ones is refused',
    ...plan,
    text: "if (facts.noted === 'different' || !isStagedAs(at, wanted)) throw",
    replacement: "if (facts.noted === 'different') throw",
  },
  {
    name: 'a volume has one staging path',
    ...plan,
    text: 'if (facts.stagedElsewhere !== undefined) {',
    replacement: "if (facts.stagedElsewhere === '') {",
  },
  {
    name: 'a mount at a staging path hides no data',
    ...plan,
    text: "  refuseForeignData(volumeId, path, at, wanted.access);\n  return 'mount';",
    replacement: "  return 'mount';",
  },
  {
    name: 'what is published is not unstaged',
    ...plan,
    text: 'if (published !== undefined) {',
    replacement: "if (published === '') {",
  },
  {
    name: 'a target is not its own staging path',
    ...plan,
    text: "  if (path === stagingPath) throw new InvalidArgument('target_path and staging_target_path are the same.');\n",
    replacement: '',
  },
  {
    name: 'what another volume has staged is not published',
    ...plan,
    text: ' || staged.volumeId !== volumeId',
    replacement: '',
  },
  {
    name: 'a device is not published as a filesystem',
    ...plan,
    text: ' || staged.access !== wanted.access',
    replacement: '',
  },
  {
    name: 'a publish over another mount is refused',
    ...plan,
    text: `    if (at.volumeId !== volumeId) throw otherMount(volumeId, path, at);
    if (facts.noted === 'different' || !shows(at, wanted))`,
    replacement: "    if (facts.noted === 'different' || !shows(at, wanted))",
  },
  {
    name: 'a publish with other arguments is refused',
    ...plan,
    text: "if (facts.noted === 'different' || !shows(at, wanted)) throw",
    replacement: "if (facts.noted === 'different') throw",
  },
  {
    name: 'a publish with another capability than the staged one is refused',
    ...plan,
    text: "if (facts.noted === 'different' || stagedOtherwise) {",
    replacement: 'if (stagedOtherwise) {',
  },
  {
    name: 'without a note the mount itself is compared',
    ...plan,
    text: "if (facts.noted === 'different' || stagedOtherwise) {",
    replacement: "if (facts.noted === 'different') {",
  },
  {
    name: 'a mode for one pod is published once',
    ...plan,
    text: ' && !allowsSeveralTargets(capability.mode)',
    replacement: ' && path === other',
  },
  {
    name: 'a block volume is not read-only beside writable',
    ...plan,
    text: 'if (otherwise !== undefined) {',
    replacement: "if (otherwise === '') {",
  },
  {
    name: 'a mount at a target hides no data',
    ...plan,
    text: `  refuseForeignData(volumeId, path, at, wanted.access);
  return at.kind === 'nothing' ? 'make-target' : 'use-target';
}

export type EphemeralFacts`,
    replacement: `  return at.kind === 'nothing' ? 'make-target' : 'use-target';
}

export type EphemeralFacts`,
  },
  {
    name: 'an ephemeral publish over another mount is refused',
    ...plan,
    text: `    if (at.volumeId !== volumeId) throw otherMount(volumeId, path, at);
    if (noted !== 'same'`,
    replacement: "    if (noted !== 'same'",
  },
  {
    name: 'an ephemeral publish with other arguments is refused',
    ...plan,
    text: "if (noted !== 'same' || !shows(at, wanted)) throw",
    replacement: 'if (!shows(at, wanted)) throw',
  },
  {
    name: 'a staging path is not unpublished',
    ...plan,
    text: '  if (isStagingPath) {',
    replacement: "  if (isStagingPath && path === '') {",
  },
  {
    name: 'an unpublish removes no data',
    ...plan,
    text: "if (at.isEmpty) return at.kind === 'directory'",
    replacement: "if (at.kind) return at.kind === 'directory'",
  },
  {
    name: 'an unpublish leaves what is mounted of others',
    ...plan,
    text: "  if (!at.coversOwn) return 'nothing';\n",
    replacement: "  if (!at.coversOwn) return 'unmount';\n",
  },
  {
    name: 'a volume that something else is mounted over is not said to be undone',
    ...plan,
    text: "  if (!at.coversOwn) return 'nothing';\n",
    replacement: "  if (path) return 'nothing';\n",
  },
  {
    name: 'a device node that nobody noted as ours stays',
    ...plan,
    text: '(ownsStaleDevice && isStaleDevice(at))',
    replacement: 'isStaleDevice(at)',
  },
  {
    name: 'a directory of a filesystem is not the whole of it',
    ...plan,
    text: 'at.access !== wanted.access || !at.isWhole',
    replacement: 'at.access !== wanted.access',
  },
  {
    name: 'a device that takes writes is no read-only one',
    ...plan,
    text: 'return at.attributes.readonly === wanted.attributes.readonly;',
    replacement: 'return true;',
  },
  {
    name: 'a mount is compared with what is asked for',
    ...plan,
    text: 'return hasAttributes(at.attributes, wanted.attributes);',
    replacement: 'return true;',
  },
  {
    name: 'a target is below an allowed directory',
    ...target,
    text: 'if (root === undefined || name === undefined) {',
    replacement: 'if (name === undefined) {',
  },
  {
    name: 'a target has no detours',
    ...target,
    text: `  if (parts.includes('..')) return { problem: "contains '..'" };\n`,
    replacement: '',
  },
  {
    name: 'a target has no NUL',
    ...target,
    text: "  if (text.includes('\\0')) return { problem: 'contains a NUL character' };\n",
    replacement: '',
  },
  {
    name: 'an allowed directory is not the beginning of a name',
    ...target,
    text: "allowed === '/' ? '/' :",
    replacement: 'allowed !== undefined ? allowed :',
  },
  {
    name: 'a mount flag does not change what is mounted, or where',
    ...options,
    text: 'return refusedKeys.has(key) || ',
    replacement: 'return ',
  },
  {
    name: 'a mount flag does not change how mounts spread',
    ...options,
    text: ' || refusedPrefixes.some((prefix) => key.startsWith(prefix))',
    replacement: '',
  },
  {
    name: 'a mount flag has no NUL',
    ...options,
    text: "key === '' || word.includes('\\0')",
    replacement: "key === ''",
  },
  {
    name: 'a note of an earlier boot is none',
    ...notes,
    text: ' || parsed.data.bootId !== this.#bootId',
    replacement: '',
  },
  {
    name: 'the notes of an earlier version are taken over',
    ...notes,
    text: '      if (loaded !== undefined) await this.#write(loaded.id, loaded.note);\n',
    replacement: '',
  },
  {
    name: 'a digest stands for the mode, too',
    ...notes,
    text: "JSON.stringify([mode, content.type === 'mount'",
    replacement: "JSON.stringify(['', content.type === 'mount'",
  },
  {
    name: 'a digest stands for the mount flags, too',
    ...notes,
    text: 'content.fsType : content.type, flags]',
    replacement: 'content.fsType : content.type, flags.length]',
  },
];
