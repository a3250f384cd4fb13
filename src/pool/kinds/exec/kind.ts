import { mkdir, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { explain } from '../../../kernel/call/explain.ts';
import { sameDevice } from '../../../kernel/device.ts';
import { didYouMean } from '../../../settings/nearest.ts';
import { accessModes } from '../../../volume/capability.ts';
import { InternalError, InvalidArgument } from '../../../volume/errors.ts';
import { TurnsByKey } from '../../../volume/flow/turns.ts';
import { deviceContent, seenOnDevice } from '../../device-content.ts';
import type { PoolLog } from '../../log.ts';
import type { NodeKind, NodeSideContext } from '../../node-side.ts';
import { type Finding, fail, ok } from '../../sight.ts';
import type { ProgramConfig } from './config.ts';
import { execKeys, optionPrefix, readExecContext } from './context.ts';
import { showsMount } from './look.ts';
import { ExecNotes } from './notes.ts';
import type { ExecNode } from './side.ts';

export type Programs = ReadonlyMap<string, ProgramConfig>;

/**
 * Volumes that programs of the configuration make reachable.
 * @param node undefined: contexts are only read here
 */
export function execNodeKind(programs: Programs, node: ExecNode | undefined): NodeKind {
  return {
    name: 'exec',
    traits: { detaching: 'explicit', accessModes },
    namingKeys: ['program'],
    keys: execKeys,
    keyPrefix: optionPrefix,
    read(context, demand) {
      const { fsType: given, program: name } = readExecContext(context);
      const program = programs.get(name);
      if (program === undefined) throw unknownProgram(name, [...programs.keys()]);
      if (program.presents === 'directory') {
        if (demand.access === 'mount') return { content: { type: 'directory' } };
        throw new InvalidArgument(`program ${name} presents a directory: its volumes have no raw block device.`);
      }
      const content = deviceContent(demand, (fsType) => `program ${name} presents a device: ${fsType} is on none.`);
      if (demand.access === 'mount' && given !== undefined)
        throw new InvalidArgument(`fsType of a volume of program ${name} belongs beside its driver.`);
      return content;
    },
    shows({ content, handle }, { device, mount }) {
      const note = node?.notes.read(handle);
      // Numbers of before a reboot are other things' now.
      if (note === undefined || note.boot !== node?.notes.boot) return undefined;
      if (content.type === 'directory') return mount && note.mount && showsMount(note.mount, mount);
      if (note.device === undefined || !sameDevice(note.device, device)) return undefined;
      return seenOnDevice({ mount });
    },
    isOwnMount: (target) => node !== undefined && target.startsWith(`${node.mountsDirectory}/`),
    serverOf: ({ context }) => readExecContext(context).program,
    // Each volume is alone: a program that hangs for one hinders no other.
    fateOf: ({ context, handle }) => `${readExecContext(context).program} ${handle}`,
    async checkNode(queue) {
      const { requireTrusted } = await import('./program-file.ts');
      const findings: Finding[] = [];
      for (const program of programs.values()) {
        const check = `program ${program.name}`;
        const mistake = await requireTrusted(queue, program).then(() => undefined, explain);
        const advice = "It, and the directories above it, must be root's alone (docs/exec.md).";
        findings.push(mistake === undefined ? ok(check, `${program.path} can be run`) : fail(check, mistake, advice));
      }
      return findings;
    },
    async open(context: NodeSideContext) {
      if (node === undefined) throw new InternalError('programs are run on nodes.');
      const { ExecSide } = await import('./side.ts');
      return new ExecSide(node, context);
    },
  };
}

export interface ExecNodeOptions {
  readonly programs: Programs;
  readonly nodeName: string;
  /** The driver's own directory, HOLDFAST_DATA. */
  readonly dataDirectory: string;
  readonly mountsDirectory: string;
  readonly queue: DiskQueue;
  readonly log: PoolLog;
}

/** Opens what this node knows of such volumes. */
export async function openExecNode(options: ExecNodeOptions): Promise<ExecNode> {
  const { dataDirectory, log, mountsDirectory, nodeName, programs, queue } = options;
  const directory = join(dataDirectory, 'exec');
  const locksDirectory = join(directory, 'locks');
  const notes = await ExecNotes.open(directory, queue, log);
  await queue.run(() => mkdir(locksDirectory, { recursive: true, mode: 0o700 }));
  const resolved = programs.size === 0 ? mountsDirectory : await queue.run(() => resolvedDirectory(mountsDirectory));
  return {
    ...{ nodeName, programs, notes, locksDirectory, log },
    ...{ mountsDirectory: resolved, turns: new TurnsByKey(), withoutLook: new Set() },
  };
}

/** The path of a directory as the mount table has it: the kubelet's directory may be a symbolic link. */
async function resolvedDirectory(path: string): Promise<string> {
  await mkdir(path, { recursive: true, mode: 0o750 });
  return await realpath(path);
}

function unknownProgram(name: string, names: readonly string[]): InvalidArgument {
  return new InvalidArgument(
    `volumeAttributes: program ${JSON.stringify(name)} is not in the configuration of this driver; there is ${names.join(', ') || 'none'}${didYouMean(name, names)}.`,
  );
}
