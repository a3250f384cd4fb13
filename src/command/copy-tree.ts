import { run } from './run.ts';

/** Ten million small files take about an hour. */
const timeoutMs = 12 * 3600_000;

export interface CopyOptions {
  /** always: files share their blocks, or it fails. auto: they do where the filesystem, or its server, can do that. */
  readonly sharing: 'always' | 'auto';
}

/**
 * Copies the contents of a directory into an empty one. Owners, modes, times, ACLs and other
 * extended attributes, links, holes, special files, and the owner and mode of the directory itself are kept (cp(1)). No
 * program may write to the source meanwhile, and nothing may be mounted in it.
 * @throws CommandError if a file cannot share its blocks, or anything else would differ
 */
export async function copyTree(fromPath: string, toPath: string, { sharing }: CopyOptions): Promise<void> {
  // Not `all`: then cp would not report lost extended attributes.
  const preserved = '--preserve=mode,ownership,timestamps,links,xattr';
  const how = ['--recursive', '--no-dereference', '--no-target-directory', preserved, `--reflink=${sharing}`];
  await run('cp', [...how, '--', fromPath, toPath], { timeoutMs });
}
