import {
  FailedPrecondition,
  type HoldfastError,
  InternalError,
  InvalidArgument,
  ResourceExhausted,
  Unavailable,
} from '../volume/errors.ts';
import { cannotMount, runInVolume, type UnmountedVolume, withoutPrivileges } from './confined.ts';
import type { GitSource } from './git-source.ts';
import { CommandError, type CommandResult, run } from './run.ts';

/** Less than the two minutes that the kubelet waits for a publish, so that it gets the reason. */
const defaultTimeoutMs = 60_000;

/** A host that sends fewer bytes a second than this for the time below is given up. */
const slowestBytes = 1000;
const longestStallSeconds = 20;

/**
 * The user that git runs as; no other user has this id. So a repository on this node can be used only if every user may
 * read it, and git can write only to the volume, even if a repository makes it run something.
 */
const userId = 2_000_000_001;

/** Only our own configuration, no prompts, only two protocols, and no helpers that would outlive the command. */
const environment = {
  HOME: '/nonexistent',
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_ATTR_NOSYSTEM: '1',
  GIT_ALLOW_PROTOCOL: 'https:file',
  GIT_NO_LAZY_FETCH: '1',
  GIT_TERMINAL_PROMPT: '0',
  GIT_ASKPASS: '',
  SSH_ASKPASS: '',
};

/** The node's proxies and trusted certificates (git(1), libcurl-env(3)). */
const inherit = [
  ...['https_proxy', 'HTTPS_PROXY', 'all_proxy', 'ALL_PROXY', 'no_proxy', 'NO_PROXY'],
  ...['GIT_SSL_CAINFO', 'GIT_SSL_CAPATH', 'SSL_CERT_FILE', 'SSL_CERT_DIR'],
];

const configuration: readonly string[] = [
  'core.hooksPath=/dev/null',
  'core.fsmonitor=false',
  'submodule.recurse=false',
  'credential.helper=',
  'gc.auto=0',
  'maintenance.auto=false',
  // Saves memory: each thread takes the size of the largest file.
  'core.bigFileThreshold=16m',
  'core.deltaBaseCacheLimit=16m',
  'pack.threads=1',
  'index.threads=1',
].flatMap((setting) => ['-c', setting]);

/**
 * The program at the other end, for a path on this node. A repository's configuration cannot make it run anything, and
 * a repository of another user is expected here (git-config(1), safe.directory).
 */
const uploadPack = "git -c 'safe.directory=*' upload-pack";

export interface Population {
  readonly volume: UnmountedVolume;
  readonly source: GitSource;
  readonly timeoutMs?: number;
  /** Time in which a host may send next to nothing. */
  readonly stallSeconds?: number;
}

/**
 * Puts the files of one revision into a new volume, with a repository that later fetches can use. They belong to root,
 * as everything in a new volume. Hooks, submodules and filters of the repository do not run.
 * @throws HoldfastError with a message for the author of the attributes
 */
export async function populateFromGit(population: Population): Promise<void> {
  const { source, stallSeconds = longestStallSeconds, timeoutMs = defaultTimeoutMs, volume } = population;
  const { directory, repository, revision = 'HEAD' } = source;
  const deadlineMs = performance.now() + timeoutMs;
  const inVolume = (place: string, command: readonly string[]) =>
    runInVolume(volume, place, command, {
      environment,
      inherit,
      timeoutMs: Math.max(1, Math.ceil(deadlineMs - performance.now())),
    });
  const stall = ['-c', `http.lowSpeedLimit=${slowestBytes}`, '-c', `http.lowSpeedTime=${stallSeconds}`];
  const git = (...args: string[]) =>
    inVolume(directory, withoutPrivileges(userId, ['git', ...configuration, ...stall, ...args]));
  await requireGit();
  try {
    await inVolume('.', ['install', '-d', '-m', '0755', '-o', `${userId}`, '-g', `${userId}`, '--', directory]);
    await git('init', '--quiet', '--template=', '--initial-branch=main');
    await git('config', 'remote.origin.url', repository);
    await git('config', 'remote.origin.fetch', '+refs/heads/*:refs/remotes/origin/*');
    await checkOut(git, revision);
    await inVolume('.', ['chown', '--recursive', '--no-dereference', '0:0', '--', directory]);
  } catch (error) {
    throw error instanceof CommandError ? explain(error, source, performance.now() >= deadlineMs) : error;
  }
}

type Git = (...args: string[]) => Promise<CommandResult>;

const hexadecimal = /^[0-9a-f]{4,64}$/;

/** Fetches only the one revision, unless it is an abbreviated commit: the other end does not know those. */
async function checkOut(git: Git, revision: string): Promise<void> {
  const fetch = ['fetch', '--quiet', '--no-recurse-submodules', '--upload-pack', uploadPack];
  let fetched = 'FETCH_HEAD';
  try {
    // With the plus, a revision with the name `tag` is no keyword (git-fetch(1)); it changes nothing else.
    await git(...fetch, '--depth=1', '--no-tags', 'origin', `+${revision}`);
  } catch (error) {
    if (!hexadecimal.test(revision) || !(error instanceof CommandError) || !isUnknownRevision(error)) throw error;
    await git(...fetch, '--tags', 'origin');
    fetched = revision;
  }
  const { exitCode, stderr } = await git('checkout', '--quiet', '--detach', fetched, '--');
  // git exits with 0 even if it could not write a file.
  if (/^error: /m.test(stderr)) throw new CommandError('git', exitCode, 'could not write all files', stderr);
}

async function requireGit(): Promise<void> {
  try {
    await run('git', ['--version'], { environment });
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    throw new FailedPrecondition(`gitRepository needs git on this node (package git), and ${error.message}.`);
  }
}

function isUnknownRevision({ stderr }: CommandError): boolean {
  return /couldn't find remote ref|not our ref|unadvertised object|invalid reference|reference is not a tree/.test(
    stderr,
  );
}

function explain(error: CommandError, { revision }: GitSource, isLate: boolean): HoldfastError {
  const { exitCode, stderr } = error;
  const words = wordsOf(stderr);
  if (isLate)
    return new Unavailable('gitRepository could not be fetched in the time there is for it; it is tried again.');
  if (/No space left on device|Disk quota exceeded|unable to write file/.test(stderr)) {
    return new ResourceExhausted('The files of gitRepository do not fit into the volume: give it a larger size.');
  }
  if (exitCode === cannotMount) return new InternalError(`The new volume cannot be mounted to be populated: ${words}.`);
  if (isUnknownRevision(error)) {
    return new InvalidArgument(`gitRevision ${JSON.stringify(revision ?? 'HEAD')} is not in gitRepository.`);
  }
  if (/could not read Username|Authentication failed|returned error: 403|repository '.*' not found/.test(stderr)) {
    return new FailedPrecondition('gitRepository does not exist, or asks for credentials, which cannot be given here.');
  }
  if (/unable to access|early EOF|hung up|RPC failed/.test(stderr)) {
    return new Unavailable(`gitRepository cannot be reached: ${words}.`);
  }
  if (/does not appear to be a git repository|Could not read from remote|Permission denied/.test(stderr)) {
    return new FailedPrecondition(`gitRepository is no repository that everybody on this node may read: ${words}.`);
  }
  return new FailedPrecondition(
    `The volume cannot be populated from gitRepository: ${words === '' ? error.message : words}.`,
  );
}

/** git's own messages, without those of the other end, in one short line. */
function wordsOf(stderr: string): string {
  const lines = stderr.split('\n').flatMap((line) => /^(?:fatal|error): (.*)$/.exec(line)?.[1] ?? []);
  const plain = (lines.length > 0 ? lines : [stderr]).join('; ').replaceAll(/\p{Cc}+/gu, ' ');
  return plain.trim().replace(/\.$/, '').slice(0, 300);
}
