import { chmodSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { Scratch } from '../../support/scratch.ts';

/** Puts a program before cryptsetup that notes how it is started, and then becomes it. */
export class CountedCryptsetup {
  readonly #log: string;

  constructor(scratch: Scratch) {
    this.#log = scratch.join('started');
    const wrapper = scratch.join('cryptsetup');
    writeFileSync(wrapper, `#!/bin/sh\necho "$@" >>'${this.#log}'\nexec /usr/sbin/cryptsetup "$@"\n`);
    chmodSync(wrapper, 0o755);
    process.env['PATH'] = `${scratch.path}:${process.env['PATH']}`;
  }

  /** The arguments of each that was started since, and begins anew. */
  taken(): string[] {
    if (!existsSync(this.#log)) return [];
    const lines = readFileSync(this.#log, 'utf8').trim().split('\n');
    rmSync(this.#log);
    return lines;
  }
}
