import { posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { InvalidArgument } from '../volume/errors.ts';

/** The source of a volume's first files. */
export interface GitSource {
  /** An https URL without credentials, or an absolute path on this node. */
  readonly repository: string;
  /** A branch, a tag or a commit; undefined: the repository's HEAD. */
  readonly revision: string | undefined;
  /** A directory at the top of the volume, or `.` for the top itself. */
  readonly directory: string;
}

/** The attributes that describe a source. */
export interface GitAttributes {
  readonly gitRepository?: string | undefined;
  readonly gitRevision?: string | undefined;
  readonly gitDirectory?: string | undefined;
}

/**
 * Reads the attributes; undefined if they name no repository. No message repeats the repository: it may have a password
 * in it.
 * @throws InvalidArgument
 */
export function parseGitSource({ gitDirectory, gitRepository, gitRevision }: GitAttributes): GitSource | undefined {
  if (gitRepository === undefined) {
    const alone = gitRevision === undefined ? gitDirectory : gitRevision;
    if (alone === undefined) return undefined;
    throw new InvalidArgument('gitRevision and gitDirectory mean nothing without gitRepository.');
  }
  return {
    repository: parseRepository(gitRepository),
    revision: gitRevision === undefined ? undefined : parseRevision(gitRevision),
    directory: gitDirectory === undefined ? '.' : parseDirectory(gitDirectory),
  };
}

/** A host, optionally a port, and a path. No user, and no query, as these may hold tokens. */
const httpsUrl = /^https:\/\/([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?\/[^\s\\?#\p{Cc}]+$/u;
const credentials = /^[a-z+]+:\/*[^/]*@|[?#]/i;

function parseRepository(text: string): string {
  if (text.startsWith('/')) return parsePath(text);
  if (text.startsWith('file://')) return parsePath(pathOfFileUrl(text));
  if (httpsUrl.test(text)) return text;
  throw new InvalidArgument(
    credentials.test(text)
      ? 'gitRepository must not have credentials, a query or a fragment in it: only repositories that need none can be used.'
      : 'gitRepository must be an https:// URL, or an absolute path or file:// URL on the node.',
  );
}

function pathOfFileUrl(text: string): string {
  try {
    return fileURLToPath(text);
  } catch {
    throw new InvalidArgument('gitRepository is no file:// URL of a path on this node.');
  }
}

function parsePath(path: string): string {
  if (/\p{Cc}/u.test(path)) throw new InvalidArgument('gitRepository has a character in it that no path should have.');
  if (posix.normalize(path) !== path) {
    throw new InvalidArgument("gitRepository must be a path without '.', '..' and empty parts.");
  }
  return path;
}

/** Names that git-check-ref-format(1) allows, except options, refspecs and expressions. */
const revisionPattern = /^[^\p{Cc}\s~^:?*[\\+/-][^\p{Cc}\s~^:?*[\\]{0,254}$/u;

function parseRevision(text: string): string {
  const isName = revisionPattern.test(text) && !text.includes('..') && !text.includes('@{');
  if (isName && !text.endsWith('/') && !text.endsWith('.lock')) return text;
  throw new InvalidArgument(`gitRevision ${JSON.stringify(text)} is no name of a branch or tag, and no commit.`);
}

/** One level only: git's files must have nothing above them but the volume's own root. */
function parseDirectory(text: string): string {
  if (text === '.') return text;
  const isName = Buffer.byteLength(text) <= 255 && !/[/\p{Cc}]/u.test(text) && !/^(\.{0,2}|-.*|\.git)$/i.test(text);
  if (isName) return text;
  throw new InvalidArgument(
    `gitDirectory ${JSON.stringify(text)} must be '.' or the name of one directory, not '.git' and not beginning with '-'.`,
  );
}
