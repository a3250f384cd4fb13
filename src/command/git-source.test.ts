import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { InvalidArgument } from '../volume/errors.ts';
import { parseGitSource } from './git-source.ts';

const gitRepository = 'https://git.example.com/team/site.git';

describe('git attributes', () => {
  test('without a repository there is nothing to populate', () => {
    assert.equal(parseGitSource({}), undefined);
    assert.throws(() => parseGitSource({ gitRevision: 'main' }), InvalidArgument);
    assert.throws(() => parseGitSource({ gitDirectory: 'src' }), InvalidArgument);
  });

  for (const [repository, parsed] of [
    [gitRepository, gitRepository],
    ['https://[2001:db8::1]:8443/a', 'https://[2001:db8::1]:8443/a'],
    ['https://git.example.com/@scope/it', 'https://git.example.com/@scope/it'],
    ['/srv/git/site.git', '/srv/git/site.git'],
    ['file:///srv/git/a%20b', '/srv/git/a b'],
  ] as const) {
    test(`repository ${repository}`, () => {
      const source = parseGitSource({ gitRepository: repository });
      assert.deepEqual(source, { repository: parsed, revision: undefined, directory: '.' });
    });
  }

  for (const repository of [
    'https://user:hunter2@git.example.com/a',
    'https://hunter2@git.example.com/a',
    'https:/user:hunter2@git.example.com/a',
    'https:user:hunter2@git.example.com/a',
    'HTTPS://user:hunter2@git.example.com/a',
    'https://git.example.com/a?private_token=hunter2',
    'https://git.example.com/a#hunter2',
    'https://git.example.com\\@hunter2/a',
    'https://git.example.com/a b',
    'https://git.example.com/a\nhunter2',
    'https://git.example.com',
    'http://git.example.com/hunter2',
    'ssh://hunter2@git.example.com/a',
    'git@git.example.com:hunter2',
    'ext::sh -c hunter2',
    'file://elsewhere/hunter2',
    'file:///a%2Fhunter2',
    '/srv/../hunter2',
    '/srv/./hunter2',
    '/srv\nhunter2',
    'hunter2',
    '--upload-pack=hunter2',
    '',
  ]) {
    test(`repository ${JSON.stringify(repository)} is refused, and not repeated (X03)`, () => {
      assert.throws(
        () => parseGitSource({ gitRepository: repository }),
        (error) => error instanceof InvalidArgument && !error.message.includes('hunter2'),
      );
    });
  }

  for (const gitRevision of ['main', 'v1.0', 'feature/x', 'refs/pull/1/head', 'a'.repeat(40), 'möwe', 'HEAD', '1a2b']) {
    test(`revision ${gitRevision}`, () => {
      assert.equal(parseGitSource({ gitRepository, gitRevision })?.revision, gitRevision);
    });
  }
  for (const gitRevision of [
    '',
    '-x',
    '--upload-pack=x',
    '+a',
    'a:b',
    'a..b',
    'a^',
    'a~1',
    'a b',
    '@{1}',
    'a\n',
    '/a',
  ]) {
    test(`revision ${JSON.stringify(gitRevision)} is refused`, () => {
      assert.throws(() => parseGitSource({ gitRepository, gitRevision }), InvalidArgument);
    });
  }

  for (const gitDirectory of ['.', 'src', '.hidden', 'ä b']) {
    test(`directory ${gitDirectory}`, () => {
      assert.equal(parseGitSource({ gitRepository, gitDirectory })?.directory, gitDirectory);
    });
  }
  for (const gitDirectory of ['', '..', '/', 'a/b', '../a', './a', '-a', '.git', '.GIT', 'a\0', 'a'.repeat(256)]) {
    test(`directory ${JSON.stringify(gitDirectory).slice(0, 20)} is refused`, () => {
      assert.throws(() => parseGitSource({ gitRepository, gitDirectory }), InvalidArgument);
    });
  }

  test('nothing that passes is an option, or has a part that leads elsewhere', () => {
    const word = fc.oneof(fc.constantFrom('-', '--', '.', '..', '/', '.git', 'a', ':', '+', '^'), fc.string());
    const text = fc.array(word).map((words) => words.join(''));
    fc.assert(
      fc.property(text, text, text, (repository, gitRevision, gitDirectory) => {
        try {
          const source = parseGitSource({ gitRepository: `/${repository}`, gitRevision, gitDirectory });
          assert.ok(source !== undefined);
          assert.ok(!/^[-+^]|:/.test(source.revision ?? ''));
          assert.ok(!/[/\0]|^-|^\.\.$/.test(source.directory));
          assert.ok(source.repository.startsWith('/') && !source.repository.split('/').includes('..'));
        } catch (error) {
          assert.ok(error instanceof InvalidArgument, `${error}`);
        }
      }),
    );
  });
});
