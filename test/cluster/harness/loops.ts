import { statSync } from 'node:fs';
import { runToEnd } from './command.ts';

/** Loop devices over files of a pool: those that lie on its filesystem, under whatever path they were opened. */
export async function loopsInto(pool: string): Promise<string[]> {
  const { dev } = statSync(pool);
  const major = Math.floor(dev / 256) % 4096;
  const device = `${major}:${dev % 256}`;
  const lines = (await runToEnd('losetup', ['--list', '--noheadings', '--raw', '-O', 'NAME,BACK-MAJ:MIN'])).split('\n');
  return lines.map((line) => line.split(' ')).flatMap(([name, backing]) => (name && backing === device ? [name] : []));
}
