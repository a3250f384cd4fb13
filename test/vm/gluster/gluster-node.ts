/** Runs in the virtual machine: a node service with volumes on GlusterFS. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { DiskQueue } from '../../../src/kernel/call/disk-queue.ts';
import { glusterNodeKind, openGlusterNode } from '../../../src/pool/kinds/gluster/kind.ts';
import type { NodeKind } from '../../../src/pool/node-side.ts';
import type { Scratch } from '../../support/scratch.ts';

type Place = Pick<Scratch, 'join'>;

/** The kind, with what a node that died has left in the directory. */
export async function openGlusterKind(scratch: Place): Promise<NodeKind> {
  mkdirSync(scratch.join('data'), { recursive: true });
  const node = await openGlusterNode({
    dataDirectory: scratch.join('data'),
    mountsDirectory: scratch.join('kubelet', 'mounts'),
    queue: new DiskQueue('gluster', 2),
    log: { info() {}, warn() {}, error() {} },
  });
  return glusterNodeKind(node);
}

/** Processes of clients with a mount below a directory. */
export function clients(path: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^[0-9]+$/.test(name) && wordsOf(name).some((word) => word.startsWith(`${path}/`)))
    .filter((name) => wordsOf(name).includes('--process-name=fuse'))
    .map(Number);
}

/** Empty for one that is gone, or that waits for its parent. */
function wordsOf(pid: string): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
  } catch {
    return [];
  }
}

export function cgroupOf(pid: number): string {
  return readFileSync(`/proc/${pid}/cgroup`, 'utf8');
}

const script = fileURLToPath(new URL('../../../test/vm/gluster/server.sh', import.meta.url));

/** Does something to the server (server.sh). */
export function server(...words: string[]): void {
  execFileSync('sh', [script, ...words], { stdio: ['ignore', 'ignore', 'inherit'] });
}

/** All that volumes leave, apart from mounts: processes, cgroups, notes, directories. */
export function leftOf(scratch: Pick<Scratch, 'join' | 'path'>) {
  const list = (...names: string[]) => {
    try {
      return readdirSync(scratch.join(...names));
    } catch {
      return [];
    }
  };
  const cgroups = readdirSync('/sys/fs/cgroup').filter((name) => name.startsWith('holdfast'));
  return {
    clients: clients(scratch.path),
    cgroups,
    notes: list('data', 'gluster'),
    locks: list('data', 'gluster', 'locks'),
    mounts: list('kubelet', 'mounts'),
  };
}

export const nothing = { clients: [], cgroups: [], notes: ['locks'], locks: [], mounts: [] };
