import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { InvalidArgument } from '../../volume/errors.ts';
import { checkTargetPath, normalizeRoot, parseTargetPath } from './target.ts';

const roots = ['/var/lib/kubelet', '/var/lib/kubelet/plugins', '/srv'];

describe('checkTargetPath', () => {
  const good: [string, { path: string; root: string; parent: string; name: string }][] = [
    ['/srv/a', { path: '/srv/a', root: '/srv', parent: '', name: 'a' }],
    ['/srv/a/b/c', { path: '/srv/a/b/c', root: '/srv', parent: 'a/b', name: 'c' }],
    ['//srv///a/./b/', { path: '/srv/a/b', root: '/srv', parent: 'a', name: 'b' }],
    [
      '/var/lib/kubelet/pods/x',
      { path: '/var/lib/kubelet/pods/x', root: '/var/lib/kubelet', parent: 'pods', name: 'x' },
    ],
    [
      '/var/lib/kubelet/plugins/x',
      { path: '/var/lib/kubelet/plugins/x', root: '/var/lib/kubelet/plugins', parent: '', name: 'x' },
    ],
    ['/srv/a b\\c/ü🙂', { path: '/srv/a b\\c/ü🙂', root: '/srv', parent: 'a b\\c', name: 'ü🙂' }],
    ['/srv/...', { path: '/srv/...', root: '/srv', parent: '', name: '...' }],
  ];
  for (const [text, expected] of good) {
    test(text, () => assert.deepEqual(checkTargetPath(text, roots), expected));
  }

  test('a root that is / has everything below it', () => {
    assert.deepEqual(checkTargetPath('/a/b', ['/']), { path: '/a/b', root: '/', parent: 'a', name: 'b' });
  });

  test('a long path', () => {
    const path = `/srv/${'x'.repeat(200)}/${'y'.repeat(200)}`;
    const checked = checkTargetPath(path, roots);
    assert.ok('path' in checked && checked.path === path);
  });

  const bad: [string, string, RegExp][] = [
    ['relative (PB16)', 'srv/a', /absolute/],
    ['empty', '', /absolute/],
    ['a root itself', '/srv', /not under/],
    ['the root of all', '/', /not under/],
    ['elsewhere', '/etc/passwd', /not under/],
    ['a name that begins like a root', '/srvx/a', /not under/],
    ['traversal', '/srv/../etc/passwd', /'\.\.'/],
    ['traversal at the end', '/srv/a/..', /'\.\.'/],
    ['NUL', '/srv/a\0b', /NUL/],
  ];
  for (const [what, text, problem] of bad) {
    test(what, () => {
      const checked = checkTargetPath(text, roots);
      assert.ok('problem' in checked);
      assert.match(checked.problem, problem);
    });
  }
});

test('parseTargetPath names the field, not the path', () => {
  assert.throws(
    () => parseTargetPath('target_path', 'x/y', roots),
    (error) => error instanceof InvalidArgument && error.message === 'target_path is not absolute.',
  );
});

test('roots are compared in one spelling', () => {
  assert.equal(normalizeRoot('/var//lib/./kubelet/'), '/var/lib/kubelet');
  assert.equal(normalizeRoot('/'), '/');
});
