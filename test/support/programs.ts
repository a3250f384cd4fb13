import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import type { ProgramConfig } from '../../src/pool/kinds/exec/config.ts';
import { execNodeKind, openExecNode } from '../../src/pool/kinds/exec/kind.ts';
import type { PoolLog } from '../../src/pool/log.ts';
import type { NodeKind } from '../../src/pool/node-side.ts';
import { ContextHarness } from './context-harness.ts';
import { Scratch } from './scratch.ts';

const examples = fileURLToPath(new URL('../exec/programs', import.meta.url));

/** A directory for programs: root's alone on its whole path, as the driver wants it. */
export class ProgramDirectory implements Disposable {
  readonly path = mkdtempSync('/run/holdfast-programs-');

  /** Puts a program of test/exec/programs there. */
  example(name: string): string {
    const path = join(this.path, name);
    // The one of the test before may run still, and cannot be written to.
    copyFileSync(join(examples, name), `${path}.new`);
    chmodSync(`${path}.new`, 0o755);
    renameSync(`${path}.new`, path);
    return path;
  }

  script(name: string, text: string): string {
    const path = join(this.path, name);
    writeFileSync(path, `#!/bin/sh\n${text}\n`, { mode: 0o755 });
    return path;
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true, force: true });
  }
}

type Given = Pick<ProgramConfig, 'name' | 'path'> & Partial<ProgramConfig>;

/** A program as the configuration has it. */
export function programConfig(given: Given): ProgramConfig {
  return {
    ...{ protocol: 'flexvolume', presents: 'directory', timeoutMs: 20_000 },
    ...{ secretsInArguments: false, detachBy: 'device', snapshots: false },
    ...given,
  } as ProgramConfig;
}

const silent: PoolLog = { info() {}, warn() {}, error() {} };

/** The kind of volumes of these programs. @param scratch of the node service */
export async function execKindWith(
  programs: readonly Given[],
  scratch: Pick<Scratch, 'join'>,
  log = silent,
): Promise<NodeKind> {
  const dataDirectory = scratch.join('data');
  mkdirSync(dataDirectory, { recursive: true });
  const node = await openExecNode({
    programs: new Map(programs.map((given) => [given.name, programConfig(given)])),
    nodeName: 'node-1',
    dataDirectory,
    mountsDirectory: scratch.join('kubelet', 'programs'),
    queue: new DiskQueue('programs', 2),
    log,
  });
  return execNodeKind(node.programs, node);
}

/** The node service with these programs. @param scratch of a harness that has died, to continue with what that left */
export async function openExecHarness(
  programs: readonly Given[],
  {
    log = silent,
    scratch = new Scratch('exec'),
  }: { log?: PoolLog; scratch?: Pick<Scratch, 'join' | 'path'> & Disposable } = {},
): Promise<ContextHarness> {
  return await ContextHarness.open([await execKindWith(programs, scratch, log)], scratch);
}
