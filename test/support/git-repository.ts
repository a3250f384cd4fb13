import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Git of a test: without the configuration of whoever runs it. */
const environment = {
  PATH: process.env['PATH'] ?? '',
  HOME: '/nonexistent',
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_AUTHOR_NAME: 'A',
  GIT_AUTHOR_EMAIL: 'a@example.com',
  GIT_COMMITTER_NAME: 'A',
  GIT_COMMITTER_EMAIL: 'a@example.com',
};

/** A repository that everybody may read, with two commits on its main branch, a tag on the first, and a branch. */
export class GitRepository {
  readonly path: string;
  /** The first commit: its file says one. */
  readonly first: string;
  /** What HEAD is: the file says two. */
  readonly head: string;

  /** @param directory that the repository is made in; everybody may pass through it afterwards */
  constructor(directory: string, name = 'repository') {
    this.path = join(directory, name);
    mkdirSync(this.path);
    chmodSync(directory, 0o711);
    chmodSync(this.path, 0o755);
    this.git('init', '--quiet', '--initial-branch=main');
    symlinkSync('/etc/hostname', join(this.path, 'link'));
    writeFileSync(join(this.path, 'program'), '#!/bin/sh\n', { mode: 0o755 });
    this.first = this.commit({ file: 'one' });
    this.git('tag', '--annotate', '--message=v1', 'v1');
    this.head = this.commit({ file: 'two' });
    this.git('checkout', '--quiet', '-b', 'team/other', 'v1');
    this.commit({ file: 'three' });
    this.git('checkout', '--quiet', 'main');
  }

  /** Writes files and commits everything; its id. */
  commit(files: Readonly<Record<string, string | Uint8Array>>): string {
    for (const [name, content] of Object.entries(files)) writeFileSync(join(this.path, name), content);
    this.git('add', '--all');
    this.git('commit', '--quiet', '--message=more');
    return this.git('rev-parse', 'HEAD');
  }

  git(...args: string[]): string {
    return this.gitWithInput('', ...args);
  }

  gitWithInput(input: string | Uint8Array, ...args: string[]): string {
    return execFileSync('git', args, { cwd: this.path, env: environment, input, encoding: 'utf8' }).trim();
  }
}
