import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { populateFromGit } from '../../src/command/git.ts';
import { type GitAttributes, parseGitSource } from '../../src/command/git-source.ts';
import { HoldfastError } from '../../src/volume/errors.ts';
import type { FilesystemType } from '../../src/volume/filesystem.ts';
import { attach, detached, filesystems, image, run, scratch } from '../kernel/fixture.ts';
import { GitRepository } from '../support/git-repository.ts';
import { GitServer, SilentServer } from '../support/git-server.ts';

/** A new volume, and a look into it once it was populated. */
async function volume(t: TestContext, directory: string, fsType: FilesystemType = 'ext4') {
  const loop = await attach(await image(directory, fsType), directory);
  const { descriptor, devicePath } = loop;
  t.after(() => descriptor[Symbol.asyncDispose]());
  return {
    populate: (attributes: GitAttributes, timeoutMs?: number, stallSeconds?: number) => {
      const source = parseGitSource(attributes);
      assert.ok(source !== undefined);
      return populateFromGit({
        volume: { devicePath, fsType },
        source,
        ...(timeoutMs === undefined ? {} : { timeoutMs }),
        ...(stallSeconds === undefined ? {} : { stallSeconds }),
      });
    },
    async look(): Promise<string> {
      const path = join(directory, 'look');
      mkdirSync(path);
      await run('mount', [devicePath, path]);
      return path;
    },
    loop,
    devicePath,
  };
}

function fails(code: HoldfastError['code'], words: RegExp) {
  return (error: unknown) => {
    assert.ok(error instanceof HoldfastError, `${error}`);
    assert.equal(error.code, code, error.message);
    assert.match(error.message, words);
    return true;
  };
}

/** Variables of this process for as long as a test runs: the driver's own are inherited by git. */
function setVariables(t: TestContext, variables: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(variables)) {
    const before = process.env[name];
    process.env[name] = value;
    t.after(() => {
      if (before === undefined) delete process.env[name];
      else process.env[name] = before;
    });
  }
}

describe('populateFromGit', () => {
  for (const fsType of filesystems) {
    test(`${fsType}: the files of HEAD, at the top, root's own`, async (t) => {
      const directory = await scratch(t);
      const repository = new GitRepository(directory);
      const { look, populate } = await volume(t, directory, fsType);
      await populate({ gitRepository: repository.path });
      const path = await look();
      assert.equal(readFileSync(join(path, 'file'), 'utf8'), 'two');
      assert.equal(readlinkSync(join(path, 'link')), '/etc/hostname');
      assert.equal(statSync(join(path, 'program')).mode & 0o777, 0o755);
      for (const name of ['', 'file', '.git', '.git/HEAD']) assert.equal(statSync(join(path, name)).uid, 0, name);
      const git = (...args: string[]) => run('git', ['-c', 'safe.directory=*', '-C', path, ...args]);
      assert.equal((await git('rev-parse', 'HEAD')).stdout.trim(), repository.head);
      assert.equal((await git('rev-list', '--count', 'HEAD')).stdout.trim(), '1', 'no more than asked for');
      assert.equal((await git('status', '--porcelain')).stdout.replace('?? lost+found/\n', ''), '');
      await git('fetch', '--quiet', '--unshallow', 'origin');
    });
  }

  const revisions: Readonly<Record<string, (repository: GitRepository) => readonly [string, string]>> = {
    'a branch': () => ['team/other', 'three'],
    'an annotated tag': () => ['v1', 'one'],
    'a commit that is no tip': ({ first }) => [first, 'one'],
    'an abbreviated commit': ({ first }) => [first.slice(0, 8), 'one'],
    HEAD: () => ['HEAD', 'two'],
    'a branch with the name tag': (repository) => {
      repository.git('branch', 'tag', 'v1');
      return ['tag', 'one'];
    },
    'a tag with the name tag': (repository) => {
      repository.git('tag', 'tag', 'v1');
      return ['tag', 'one'];
    },
  };
  for (const [what, revisionOf] of Object.entries(revisions)) {
    test(`gitRevision: ${what}`, async (t) => {
      const directory = await scratch(t);
      const repository = new GitRepository(directory);
      const [gitRevision, expected] = revisionOf(repository);
      const { look, populate } = await volume(t, directory);
      await populate({ gitRepository: repository.path, gitRevision });
      assert.equal(readFileSync(join(await look(), 'file'), 'utf8'), expected);
    });
  }

  test('gitRevision: a branch that looks like a commit is a branch', async (t) => {
    const directory = await scratch(t);
    const repository = new GitRepository(directory);
    repository.git('branch', 'deadbeef', 'v1');
    const { look, populate } = await volume(t, directory);
    await populate({ gitRepository: repository.path, gitRevision: 'deadbeef' });
    assert.equal(readFileSync(join(await look(), 'file'), 'utf8'), 'one');
  });

  for (const gitRevision of ['missing', 'deadbeef', 'd'.repeat(40)]) {
    test(`gitRevision: ${gitRevision} is not there`, async (t) => {
      const directory = await scratch(t);
      const { path } = new GitRepository(directory);
      const { populate } = await volume(t, directory);
      await assert.rejects(
        populate({ gitRepository: path, gitRevision }),
        fails('INVALID_ARGUMENT', new RegExp(gitRevision)),
      );
    });
  }

  test('gitDirectory: everything is in it', async (t) => {
    const directory = await scratch(t);
    const { path: gitRepository } = new GitRepository(directory);
    const { look, populate } = await volume(t, directory);
    await populate({ gitRepository, gitDirectory: 'a b' });
    const path = await look();
    assert.deepEqual(readdirSync(path).sort(), ['a b', 'lost+found']);
    assert.equal(readFileSync(join(path, 'a b', 'file'), 'utf8'), 'two');
    assert.equal(statSync(join(path, 'a b')).uid, 0);
    assert.equal(statSync(path).uid, 0);
  });

  test('hooks, filters and templates of this node do not run, and submodules are not fetched', async (t) => {
    const directory = await scratch(t);
    const repository = new GitRepository(directory);
    repository.commit({ '.gitattributes': '*.bin filter=lfs\n', 'large.bin': 'as it is', '.gitmodules': '' });
    const submodule = { path: 'sub', url: repository.path };
    repository.git('config', '--file=.gitmodules', 'submodule.sub.path', submodule.path);
    repository.git('config', '--file=.gitmodules', 'submodule.sub.url', submodule.url);
    repository.git('update-index', '--add', '--cacheinfo', `160000,${repository.first},${submodule.path}`);
    mkdirSync(join(repository.path, 'sub'));
    repository.git('add', '.gitmodules');
    repository.git('commit', '--quiet', '--message=submodule');

    const marked = join(directory, 'marked');
    mkdirSync(marked);
    chmodSync(marked, 0o777);
    const location = join(directory, 'location');
    const hooks = join(directory, 'template', 'hooks');
    mkdirSync(hooks, { recursive: true });
    mkdirSync(location);
    for (const hook of ['post-checkout', 'reference-transaction', 'post-index-change']) {
      writeFileSync(join(hooks, hook), `#!/bin/sh\ntouch ${marked}/${hook}\n`, { mode: 0o755 });
    }
    const settings = {
      'core.hooksPath': hooks,
      'init.templateDir': join(directory, 'template'),
      'filter.lfs.smudge': `touch ${marked}/smudge; cat`,
      'core.fsmonitor': `touch ${marked}/fsmonitor`,
      'submodule.recurse': 'true',
    };
    for (const [name, value] of Object.entries(settings)) {
      repository.git('config', `--file=${location}/.gitconfig`, name, value);
      // Nor those that the repository itself has.
      repository.git('config', name, value);
    }
    setVariables(t, {
      HOME: location,
      GIT_TEMPLATE_DIR: join(directory, 'template'),
      GIT_CONFIG_GLOBAL: `${location}/.gitconfig`,
    });

    const { look, populate } = await volume(t, directory);
    await populate({ gitRepository: repository.path });
    const path = await look();
    assert.deepEqual(readdirSync(marked), []);
    assert.equal(readFileSync(join(path, 'large.bin'), 'utf8'), 'as it is');
    assert.deepEqual(readdirSync(join(path, 'sub')), []);
    assert.ok(!existsSync(join(path, '.git', 'hooks', 'post-checkout')));
  });

  describe('nothing is written outside of the volume', () => {
    /** A tree object as its bytes, whatever git itself would say to it. */
    function tree(repository: GitRepository, entries: readonly [mode: string, name: string, id: string][]): string {
      const bytes = entries.flatMap(([mode, name, id]) => [Buffer.from(`${mode} ${name}\0`), Buffer.from(id, 'hex')]);
      return repository.gitWithInput(Buffer.concat(bytes), 'hash-object', '-t', 'tree', '-w', '--literally', '--stdin');
    }

    async function attempt(t: TestContext, entriesFor: (repository: GitRepository, outside: string) => string) {
      const directory = await scratch(t);
      const repository = new GitRepository(directory);
      const outside = join(directory, 'outside');
      mkdirSync(outside);
      chmodSync(outside, 0o777);
      const root = entriesFor(repository, outside);
      repository.git('update-ref', 'refs/heads/evil', repository.git('commit-tree', root, '-m', 'evil'));
      const { populate } = await volume(t, directory);
      await populate({ gitRepository: repository.path, gitRevision: 'evil' }).catch((error) => {
        assert.ok(error instanceof HoldfastError, `${error}`);
      });
      assert.deepEqual(readdirSync(outside), []);
      assert.ok(!existsSync(join(directory, 'escaped')));
    }

    const blob = (repository: GitRepository, text: string) =>
      repository.gitWithInput(text, 'hash-object', '-w', '--stdin');

    test('through a symbolic link that is a directory too', (t) =>
      attempt(t, (repository, outside) => {
        const inner = tree(repository, [['100644', 'escaped', blob(repository, 'x')]]);
        return tree(repository, [
          ['120000', 'a', blob(repository, outside)],
          ['40000', 'a', inner],
        ]);
      }));

    for (const name of ['..', '.git', '.GIT', '../escaped', 'a/../../escaped']) {
      test(`through an entry with the name ${name}`, (t) =>
        attempt(t, (repository) => {
          const inner = tree(repository, [['100644', 'escaped', blob(repository, 'x')]]);
          return tree(repository, [['40000', name, inner]]);
        }));
    }
  });

  test('what does not fit into the volume', async (t) => {
    const directory = await scratch(t);
    const repository = new GitRepository(directory);
    repository.commit({ large: randomBytes(40 << 20) });
    const { populate } = await volume(t, directory);
    await assert.rejects(populate({ gitRepository: repository.path }), fails('RESOURCE_EXHAUSTED', /size/));
  });

  for (const [what, files] of Object.entries({
    'one large file': { large: Buffer.alloc(40 << 20, 'small only while it is packed') },
    'many files': Object.fromEntries(Array.from({ length: 12_000 }, (_, index) => [`file ${index}`, 'x'])),
  })) {
    test(`what fits only while it is packed: ${what}`, async (t) => {
      const directory = await scratch(t);
      const repository = new GitRepository(directory);
      repository.commit(files);
      const { populate } = await volume(t, directory);
      await assert.rejects(populate({ gitRepository: repository.path }), fails('RESOURCE_EXHAUSTED', /size/));
    });
  }

  test('a repository that not everybody may read', async (t) => {
    const directory = await scratch(t);
    const { path } = new GitRepository(directory);
    chmodSync(path, 0o700);
    const { populate } = await volume(t, directory);
    await assert.rejects(populate({ gitRepository: path }), fails('FAILED_PRECONDITION', /everybody/));
  });

  test('no repository, and nothing at all', async (t) => {
    const directory = await scratch(t);
    chmodSync(directory, 0o755);
    const { populate } = await volume(t, directory);
    for (const gitRepository of [directory, `${directory}/missing`]) {
      await assert.rejects(populate({ gitRepository }), fails('FAILED_PRECONDITION', /everybody/));
    }
  });

  test('a repository of another owner, whose hook for packing does not run', async (t) => {
    const directory = await scratch(t);
    const repository = new GitRepository(directory);
    const marked = join(directory, 'marked');
    mkdirSync(marked);
    chmodSync(marked, 0o777);
    const marker = join(marked, 'hook');
    repository.git('config', 'uploadpack.packObjectsHook', `sh -c 'touch ${marker}; exec "$@"' sh`);
    await run('chown', ['--recursive', '4711', repository.path]);
    const { look, populate } = await volume(t, directory);
    await populate({ gitRepository: `file://${repository.path}` });
    assert.equal(readFileSync(join(await look(), 'file'), 'utf8'), 'two');
    assert.ok(!existsSync(marker));
  });

  test('https: fetched, no deeper than needed, by branch and by commit', async (t) => {
    const directory = await scratch(t);
    const repository = new GitRepository(directory);
    await using server = await GitServer.start(directory);
    setVariables(t, { GIT_SSL_CAINFO: server.certificatePath });
    const gitRepository = `${server.url}/repositories/repository/.git`;
    const { look, populate } = await volume(t, directory);
    await populate({ gitRepository, gitRevision: 'team/other', gitDirectory: 'branch' });
    await populate({ gitRepository, gitRevision: repository.first, gitDirectory: 'commit' });
    await populate({ gitRepository, gitRevision: repository.first.slice(0, 10), gitDirectory: 'short' });
    const path = await look();
    assert.equal(readFileSync(join(path, 'branch', 'file'), 'utf8'), 'three');
    assert.equal(readFileSync(join(path, 'commit', 'file'), 'utf8'), 'one');
    assert.equal(readFileSync(join(path, 'short', 'file'), 'utf8'), 'one');
  });

  for (const [place, code, words] of [
    ['private', 'FAILED_PRECONDITION', /credentials/],
    ['missing', 'FAILED_PRECONDITION', /does not exist/],
    ['insecure', 'UNAVAILABLE', /reached/],
    ['local', 'UNAVAILABLE', /reached/],
  ] as const) {
    test(`https: ${place}`, async (t) => {
      const directory = await scratch(t);
      new GitRepository(directory);
      await using server = await GitServer.start(directory);
      setVariables(t, { GIT_SSL_CAINFO: server.certificatePath });
      const { populate } = await volume(t, directory);
      await assert.rejects(populate({ gitRepository: `${server.url}/${place}/repository/.git` }), fails(code, words));
    });
  }

  test('https: a host that takes the question and sends nothing is given up', async (t) => {
    const directory = await scratch(t);
    new GitRepository(directory);
    await using server = await GitServer.start(directory);
    setVariables(t, { GIT_SSL_CAINFO: server.certificatePath });
    const { populate } = await volume(t, directory);
    const stalled = populate({ gitRepository: `${server.url}/stalled/x` }, 60_000, 1);
    await assert.rejects(stalled, fails('UNAVAILABLE', /reached: .*too slow/i));
  });

  test('https: a certificate that nobody vouches for, and nobody there', async (t) => {
    const directory = await scratch(t);
    await using server = await GitServer.start(directory);
    const { populate } = await volume(t, directory);
    await assert.rejects(populate({ gitRepository: `${server.url}/repositories/x` }), fails('UNAVAILABLE', /cert/));
    await assert.rejects(populate({ gitRepository: 'https://localhost:1/x' }), fails('UNAVAILABLE', /reached/));
  });

  test('a server that never answers: given up in time, and nothing holds the volume then', async (t) => {
    const directory = await scratch(t);
    using silent = await SilentServer.start();
    const { loop, populate } = await volume(t, directory);
    await assert.rejects(populate({ gitRepository: silent.url }, 2_000), fails('UNAVAILABLE', /time/));
    await loop.descriptor[Symbol.asyncDispose]();
    await detached(loop, directory);
  });

  test('T02 T04: git ends with the driver, however that ends, and the mount with it', async (t) => {
    const directory = await scratch(t);
    using silent = await SilentServer.start();
    const { devicePath, loop } = await volume(t, directory);
    const source = { repository: silent.url, revision: undefined, directory: '.' };
    const driver = spawn(process.execPath, [
      '--input-type=module',
      '--eval',
      `import { populateFromGit } from ${JSON.stringify(new URL('../../src/command/git.ts', import.meta.url).href)};
       await populateFromGit(${JSON.stringify({ volume: { devicePath, fsType: 'ext4' }, source })});`,
    ]);
    await silent.asked();
    driver.kill('SIGKILL');
    await once(driver, 'exit');
    await loop.descriptor[Symbol.asyncDispose]();
    await detached(loop, directory);
  });

  test('while git works, no other volume is kept busy by it', async (t) => {
    const directory = await scratch(t);
    using silent = await SilentServer.start();
    const { populate } = await volume(t, directory);
    const other = await attach(await image(directory, 'ext4', 'other'), directory);
    const path = join(directory, 'other-mount');
    mkdirSync(path);
    await run('mount', [other.devicePath, path]);
    await other.descriptor[Symbol.asyncDispose]();
    let isWorking = true;
    const work = assert.rejects(populate({ gitRepository: silent.url }, 20_000)).then(() => {
      isWorking = false;
    });
    await silent.asked();
    await run('umount', [path]);
    await detached(other, directory);
    assert.ok(isWorking, 'the device has waited for git');
    await silent.hangUp();
    await work;
  });

  test('git is not installed', async (t) => {
    const directory = await scratch(t);
    const { path } = new GitRepository(directory);
    const { populate } = await volume(t, directory);
    setVariables(t, { PATH: directory });
    await assert.rejects(populate({ gitRepository: path }), fails('FAILED_PRECONDITION', /not installed/));
  });
});
