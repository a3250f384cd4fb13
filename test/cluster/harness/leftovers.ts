import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { mountsBelow } from '../../support/left-behind.ts';
import { runToEnd } from './command.ts';
import type { Driver } from './driver.ts';
import type { Kubectl } from './kubectl.ts';

/** Whatever is still there of volumes and snapshots, a line each: nothing, once everybody has deleted what was theirs. */
export async function leftovers(kubectl: Kubectl, driver: Driver): Promise<string[]> {
  const pool = join(driver.dataDirectory, 'pools', 'default');
  return [
    ...mountsBelow('/var/lib/kubelet')
      .filter((target) => /\/kubernetes\.io[~/]csi\//.test(target))
      .map((target) => `mount ${target}`),
    ...(await loopsInto(pool)).map((device) => `loop device ${device}`),
    ...filesIn(pool).map((file) => `file ${file}`),
    ...notesIn(driver.dataDirectory).map((file) => `file ${file}`),
    ...(await objects(kubectl)),
  ];
}

/** Devices over files of the pool: those that lie on its filesystem, under whatever path they were opened. */
async function loopsInto(pool: string): Promise<string[]> {
  const { dev } = statSync(pool);
  const major = Math.floor(dev / 256) % 4096;
  const device = `${major}:${dev % 256}`;
  const lines = (await runToEnd('losetup', ['--list', '--noheadings', '--raw', '-O', 'NAME,BACK-MAJ:MIN'])).split('\n');
  return lines.map((line) => line.split(' ')).flatMap(([name, backing]) => (name && backing === device ? [name] : []));
}

function filesIn(pool: string): string[] {
  return ['volumes', 'snapshots', 'groups', 'trash', 'tmp'].flatMap((part) => {
    const directory = join(pool, part);
    return existsSync(directory) ? readdirSync(directory).map((name) => join(directory, name)) : [];
  });
}

function notesIn(dataDirectory: string): string[] {
  const directory = join(dataDirectory, 'node');
  return existsSync(directory)
    ? readdirSync(directory)
        .map((name) => join(directory, name))
        .filter((file) => file.endsWith('.json') && readFileSync(file, 'utf8') !== '')
    : [];
}

async function objects(kubectl: Kubectl): Promise<string[]> {
  const kinds = 'pv,volumesnapshotcontents,volumegroupsnapshotcontents,volumeattachments';
  const names = await kubectl.run(['get', kinds, '-o', 'name']);
  return names.split('\n').filter((name) => name !== '');
}
