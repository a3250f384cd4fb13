import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Catalog } from '../../src/pool/catalog/catalog.ts';
import { openExecBackend } from '../../src/pool/kinds/exec/open.ts';
import type { PoolLog } from '../../src/pool/log.ts';
import { openOver } from '../../src/pool/open.ts';
import { programConfig } from './programs.ts';
import type { Scratch } from './scratch.ts';
import { testSettings } from './test-pool.ts';

interface ExecPoolChoices {
  readonly presents?: 'directory' | 'device';
  /** The option of the program. */
  readonly base?: string;
  readonly snapshots?: boolean;
  readonly log?: PoolLog;
}

/** A pool of test/exec/programs/storage, whose volumes are directories of the scratch directory. */
export function openExecPool(
  scratch: Pick<Scratch, 'join'>,
  path: string,
  { base = scratch.join('base'), log, presents = 'directory', snapshots = true }: ExecPoolChoices = {},
) {
  mkdirSync(scratch.join('base', 'volumes'), { recursive: true });
  mkdirSync(scratch.join('data'), { recursive: true });
  const settings = testSettings(scratch);
  const chosen = {
    ...settings,
    path: scratch.join('records'),
    programName: 'storage',
    program: programConfig({ name: 'storage', path, protocol: 'json', presents, snapshots }),
    ...(log === undefined ? {} : { log }),
    records: scratch.join('records'),
    options: { base },
  };
  return openOver(() => openExecBackend(chosen), chosen) as Promise<Catalog>;
}

/** The side of the program: what it has made, and how it was called. */
export class ProgramStorage {
  readonly #base: string;

  constructor(scratch: Pick<Scratch, 'join'>) {
    this.#base = scratch.join('base');
  }

  volumes(): string[] {
    return readdirSync(join(this.#base, 'volumes')).sort();
  }

  snapshots(): string[] {
    const path = join(this.#base, 'snapshots');
    return existsSync(path) ? readdirSync(path).sort() : [];
  }

  /** Without those that change nothing. */
  calls(): string[] {
    const all = readFileSync(join(this.#base, 'calls'), 'utf8').trim().split('\n');
    return all.filter((call) => call !== 'capacity' && call !== 'list');
  }

  /** The directory of a volume. */
  path(id: string): string {
    return join(this.#base, 'volumes', id);
  }

  failIn(verb: string | undefined): void {
    const path = join(this.#base, 'trouble');
    if (verb === undefined) rmSync(path, { force: true });
    else writeFileSync(path, verb);
  }
}
