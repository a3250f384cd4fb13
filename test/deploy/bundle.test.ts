import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Scratch } from '../support/scratch.ts';

const plugin = fileURLToPath(new URL('../../deploy/kubectl/kubectl-holdfast', import.meta.url));

/** Stands for kubectl: writes down its words, knows two pods, and refuses what one of them is asked for. */
const standIn = `#!/bin/sh
echo "$*" >>"$WORDS"
case "$*" in
  *jsonpath*) echo 'holdfast-x1 holdfast-controller-7' ;;
  *events*) echo 'Error from server (Forbidden): events is forbidden' >&2; exit 1 ;;
  *) echo "said to: $*" ;;
esac
`;

test('kubectl holdfast bundle: versions, objects, logs and the looks of each driver, and no Secret', () => {
  using scratch = new Scratch('bundle');
  mkdirSync(scratch.join('bin'));
  writeFileSync(scratch.join('bin/kubectl'), standIn, { mode: 0o755 });
  const words = scratch.join('words');
  const env = { PATH: `${scratch.join('bin')}:${process.env['PATH']}`, WORDS: words, TMPDIR: scratch.path };
  const { status, stderr, stdout } = spawnSync('sh', [plugin, 'bundle', '--context', 'there'], {
    cwd: scratch.path,
    env,
    encoding: 'utf8',
  });
  assert.equal(status, 0, stderr);
  assert.match(stdout, /^holdfast-bundle-\d{8}T\d{6}Z\.tar\.gz\n$/);
  assert.match(stderr, /no Secrets/);
  const archive = scratch.join(stdout.trim());
  const files = execFileSync('tar', ['-tzf', archive], { encoding: 'utf8' }).split('\n');
  const named = (name: string) => files.find((file) => file.endsWith(`/${name}`)) ?? assert.fail(name);
  for (const name of [
    'version.yaml',
    'workloads.yaml',
    'holdfast-x1.log',
    'holdfast-x1.doctor.json',
    'holdfast-controller-7.log',
  ]) {
    named(name);
  }
  assert.ok(!files.some((file) => file.includes('holdfast-controller-7.doctor')));
  const content = (name: string) => execFileSync('tar', ['-xzOf', archive, named(name)], { encoding: 'utf8' });
  assert.match(content('events.txt'), /events is forbidden/);
  assert.match(content('holdfast-x1.pools.json'), /exec holdfast-x1 -c holdfast -- holdfast pools --json/);
  const asked = readFileSync(words, 'utf8').trim().split('\n');
  assert.ok(asked.length > 12);
  for (const line of asked) {
    assert.match(line, /^--context there /);
    assert.doesNotMatch(line, /secret/i);
  }
});
