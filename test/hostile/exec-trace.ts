import { chmodSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Scratch } from '../support/scratch.ts';

/** Where programs are, in the order in which they are looked for. */
const directories = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin'];

/** What every program was given that was started by its name: arguments and environment. */
export interface ExecTrace {
  /** The PATH to start the driver with: under it every program of the machine writes down how it was called. */
  readonly searchPath: string;
  read(): string;
}

export function traceExecs(scratch: Scratch): ExecTrace {
  const searchPath = scratch.join('bin');
  const log = scratch.join('execs');
  mkdirSync(searchPath);
  // Some programs run as another user.
  chmodSync(scratch.path, 0o755);
  writeFileSync(log, '');
  chmodSync(log, 0o666);
  // Words of the shell itself only: any program would be this script again.
  const script = `#!/bin/sh
{ printf '%s ' "$0" "$@"; echo; export -p; } >>${log}
for directory in ${directories.join(' ')}; do
  [ -x "$directory/\${0##*/}" ] && exec "$directory/\${0##*/}" "$@"
done
exit 127
`;
  writeFileSync(join(searchPath, '.trace'), script, { mode: 0o755 });
  const names = new Set(directories.flatMap((directory) => readdirSync(directory)));
  for (const name of names) symlinkSync('.trace', join(searchPath, name));
  return { searchPath, read: () => readFileSync(log, 'utf8') };
}
