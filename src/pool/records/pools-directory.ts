import { join } from 'node:path';

/** The directory below HOLDFAST_DATA where pools have their files on the node, and their mounts. */
export function poolsDirectory(dataDirectory: string): string {
  return join(dataDirectory, 'pools');
}
