import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { mountsBelow } from '../../support/left-behind.ts';
import { kubeletDirectory } from './directory.ts';
import { runDirectoryOf } from './host-directories.ts';
import type { Kubectl } from './kubectl.ts';
import { loopsInto } from './loops.ts';

/** Where a driver has its volumes. */
interface Keeper {
  /** As it is to be opened from here. */
  readonly dataDirectory: string;
  /** Of a process that sees the kubelet's mounts, where this one does not. */
  readonly pid?: number;
}

/** Whatever is still there of volumes and snapshots, a line each: nothing, once everybody has deleted what was theirs. */
export async function leftovers(kubectl: Kubectl, ...keepers: readonly Keeper[]): Promise<string[]> {
  const ofNodes = await Promise.all(keepers.map(ofNode));
  return [...ofNodes.flat(), ...(await leftObjects(kubectl))];
}

async function ofNode({ dataDirectory, pid }: Keeper): Promise<string[]> {
  const pool = join(dataDirectory, 'pools', 'default');
  return [
    ...mountsBelow(kubeletDirectory, pid)
      .filter((target) => /\/kubernetes\.io[~/]csi\//.test(target))
      .map((target) => `mount ${target}`),
    ...(await loopsInto(pool)).map((device) => `loop device ${device}`),
    ...filesIn(pool).map((file) => `file ${file}`),
    ...notesIn(dataDirectory).map((file) => `file ${file}`),
  ];
}

function filesIn(pool: string): string[] {
  return ['volumes', 'snapshots', 'groups', 'trash', 'tmp'].flatMap((part) => {
    const directory = join(pool, part);
    return existsSync(directory) ? readdirSync(directory).map((name) => join(directory, name)) : [];
  });
}

function notesIn(dataDirectory: string): string[] {
  const directory = join(runDirectoryOf(dataDirectory), 'node');
  return existsSync(directory)
    ? readdirSync(directory)
        .map((name) => join(directory, name))
        .filter((file) => file.endsWith('.json') && readFileSync(file, 'utf8') !== '')
    : [];
}

/** Of Kubernetes. */
export async function leftObjects(kubectl: Kubectl): Promise<string[]> {
  const kinds = 'pv,volumesnapshotcontents,volumegroupsnapshotcontents,volumeattachments';
  const names = await kubectl.run(['get', kinds, '-o', 'name']);
  return names.split('\n').filter((name) => name !== '');
}
