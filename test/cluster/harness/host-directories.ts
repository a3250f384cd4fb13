import { join } from 'node:path';

/** Where a driver has its notes, in a cluster whose nodes are all one machine. */
export function runDirectoryOf(dataDirectory: string): string {
  return join(dataDirectory, 'run');
}

/** The directories of a node that our manifests name, for a patch: each node here has its own. */
export function hostDirectories(dataDirectory: string): object[] {
  return [
    { name: 'data', hostPath: { path: dataDirectory, type: 'Directory' } },
    { name: 'run', hostPath: { path: runDirectoryOf(dataDirectory), type: 'DirectoryOrCreate' } },
  ];
}
