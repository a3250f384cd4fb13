import type { Mutant } from '../mutant.ts';

const hostile = 'test/exec/hostile.test.ts';
const flexvolume = 'test/exec/flexvolume.test.ts';
const unit = 'src/pool/kinds/exec/exec.test.ts';
const run = { file: 'src/command/run.ts', killer: 'test/command/run.test.ts', only: 'a program in a group' } as const;
const trust = { file: 'src/pool/kinds/exec/program-file.ts', killer: hostile, only: 'if others may write' } as const;
const side = 'src/pool/kinds/exec/side.ts';
const verbs = 'src/pool/kinds/exec/verbs.ts';
const words = { file: 'src/pool/kinds/exec/run-program.ts', killer: unit, only: 'words of a program' } as const;

/** Volumes that programs of the user's make reachable. */
export const execMutants: readonly Mutant[] = [
  {
    name: 'the children of a program end with it at its deadline',
    ...run,
    text: "['timeout', '--signal', 'KILL',",
    replacement: "['timeout', '--foreground', '--signal', 'KILL',",
  },
  {
    name: 'the children of a program that fails end with it',
    ...run,
    text: '  if (inGroup && exitCode !== 0) killGroup(subprocess.pid);\n',
    replacement: '',
  },
  {
    name: 'a program that others than root may write to is not run',
    ...trust,
    text: 'const writableByOthers = 0o022;',
    replacement: 'const writableByOthers = 0;',
  },
  {
    name: 'a program of another user is not run',
    ...trust,
    text: '  if (status.uid !== 0)',
    replacement: '  if (status.uid < 0)',
  },
  {
    name: 'the directories above a program are looked at',
    ...trust,
    text: '        await requireRoots(directory, O_DIRECTORY, refuse);\n',
    replacement: '',
  },
  {
    name: 'a program is not run through a symbolic link',
    ...trust,
    text: '      if (real !== path) throw',
    replacement: "      if (real === '') throw",
  },
  {
    name: 'a program is looked at before each call',
    file: 'src/pool/kinds/exec/run-program.ts',
    killer: hostile,
    only: 'if it was replaced',
    text: '  await requireTrusted(queue, program);\n',
    replacement: '',
  },
  {
    name: 'no secret of a program gets into the log or an error',
    ...words,
    text: 'if (form.length > 1) text = ',
    replacement: 'if (form.length > 1000) text = ',
  },
  {
    name: 'no secret gets there in base64, as FlexVolume has it',
    ...words,
    text: "      Buffer.from(secret).toString('base64'),\n",
    replacement: '',
  },
  {
    name: 'secrets are in arguments only where the configuration allows it',
    file: verbs,
    killer: flexvolume,
    only: 'secrets in its arguments',
    text: 'if (hasSecrets && !this.#calls.program.secretsInArguments)',
    replacement: 'if (hasSecrets && this.#calls.program.secretsInArguments)',
  },
  {
    name: 'a mount that a program claims is looked at',
    file: side,
    killer: hostile,
    only: 'claims what is not so',
    text: '    if (mount !== undefined) return mount;\n    throw calls.wrong',
    replacement:
      "    return mount ?? { device: { major: 0, minor: 0 }, fsType: '', root: '/', source: '' };\n    throw calls.wrong",
  },
  {
    name: 'a device that something else uses is refused',
    file: side,
    killer: hostile,
    only: 'claims what is not so',
    text: '    if (!(await isHeld(this.#beside, device))) return undefined;',
    replacement: "    if (device.path !== '') return undefined;",
  },
  {
    name: 'a device that is another volume is refused',
    file: side,
    killer: flexvolume,
    only: 'no device that is another volume',
    text: '    if (other !== undefined) return `volume',
    replacement: "    if (other === '') return `volume",
  },
  {
    name: 'a device that two programs answer at one time is the volume of one',
    file: 'src/pool/kinds/exec/notes.ts',
    killer: unit,
    only: 'one volume has a device',
    text: '    this.#claims.set(handle, device);\n',
    replacement: '',
  },
  {
    name: 'a device that is in use as another volume is not detached',
    file: verbs,
    killer: flexvolume,
    only: 'no device that is another volume',
    text: '        if (attached !== undefined && (await isForeign(attached))) return;\n',
    replacement: '',
  },
  {
    name: 'a call of a driver that died is waited for',
    file: side,
    killer: 'test/exec/orphan.test.ts',
    only: 'mount: the next one waits',
    text: 'if (!this.#isSettled && this.#noteOf(volume) !== undefined) await calls.settle();',
    replacement: '',
  },
  {
    name: 'a mount beside the one of a program is not taken for it',
    file: 'src/pool/kinds/exec/look.ts',
    killer: unit,
    only: 'a mount is the noted one',
    text: "mount.root.startsWith(noted.root === '/' ? '/' :",
    replacement: "mount.root.startsWith(noted.root !== '' ? noted.root :",
  },
  {
    name: 'a mount that the driver keeps for itself is no use of a volume',
    file: 'src/pool/attached-mounts.ts',
    killer: flexvolume,
    only: 'is staged, published, grown and undone',
    text: ' && attached.keptAt?.includes(mount.target) !== true',
    replacement: '',
  },
  {
    name: 'what is left of a try is not deleted once the volume was made',
    file: 'src/pool/kinds/exec/provisioner.ts',
    killer: 'test/exec/pool.test.ts',
    only: 'what is left of a try is not deleted',
    text: '      if (this.#ids.isOnItsWay(id) || (await isThere(queue, layout.volume(id)))) return;\n',
    replacement: '',
  },
  {
    name: 'a volume is deleted by its program before its record goes',
    file: 'src/pool/kinds/exec/provisioner.ts',
    killer: 'test/exec/pool.test.ts',
    only: 'makes, finds, grows and deletes',
    text: '    await this.#ids.inTurn(id, () => this.parts.storage.delete(id));\n',
    replacement: '',
  },
  {
    name: 'what a home that died has begun is deleted by the next one',
    file: 'src/pool/kinds/exec/provisioner.ts',
    killer: 'test/exec/pool.test.ts',
    only: 'is deleted when there is no such volume',
    text: 'if (this.#ids.drafts.has(ref) || isRecent(record)) await',
    replacement: 'if (this.#ids.drafts.has(ref)) await',
  },
  {
    name: 'a class with undelete is refused where nothing is kept',
    file: 'src/pool/kinds/exec/provisioner.ts',
    killer: 'test/exec/pool.test.ts',
    only: 'has neither copies',
    text: '    if (undeleteSeconds > 0) {',
    replacement: '    if (undeleteSeconds < 0) {',
  },
  {
    name: 'the rest of a try is deleted only soon after it: records may be restored',
    file: 'src/pool/kinds/exec/provisioner.ts',
    killer: 'test/exec/pool.test.ts',
    only: 'long ago',
    text: 'return ageMs < recentMs;',
    replacement: 'return ageMs > -1;',
  },
];
