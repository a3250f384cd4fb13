import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { output } from './program.ts';

/** A package as the registry has it, unpacked. */
export interface NpmPackage {
  readonly name: string;
  readonly version: string;
  /** Of its archive, as the registry tells and npm has checked: `sha512-…`. */
  readonly integrity: string;
  /** Where its files are. */
  readonly directory: string;
}

const packed = z.array(
  z.object({ name: z.string(), version: z.string(), integrity: z.string(), filename: z.string() }),
);

/** Fetches a package for whichever architecture, without running anything of it. */
export function unpackNpm(name: string, version: string, work: string): NpmPackage {
  const directory = join(work, name.replace('/', '+'));
  mkdirSync(directory, { recursive: true });
  const words = output('npm', ['pack', `${name}@${version}`, '--json', '--pack-destination', directory]);
  const [found] = packed.parse(JSON.parse(words));
  if (found === undefined) throw new Error(`npm pack ${name}@${version} told nothing`);
  output('tar', ['-xzf', join(directory, found.filename), '-C', directory]);
  return {
    name: found.name,
    version: found.version,
    integrity: found.integrity,
    directory: join(directory, 'package'),
  };
}
