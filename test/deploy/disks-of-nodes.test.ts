import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Scratch } from '../support/scratch.ts';

const plugin = fileURLToPath(new URL('../../deploy/kubectl/kubectl-holdfast', import.meta.url));

/** Stands for kubectl: two drivers, of which one cannot be asked. What is typed in a pod is typed here. */
const standIn = `#!/bin/sh
echo "$*" >>"$WORDS"
case "$*" in
  *jsonpath*) echo 'node-a=holdfast-x1 node-b=holdfast-x2 ' ;;
  *holdfast-x2*) echo 'Error from server: no route' >&2; exit 1 ;;
  *) while [ "$1" != -- ]; do shift; done; shift; "$@" ;;
esac
`;
/** Stands for the command in the container. */
const command = `#!/bin/sh
echo "holdfast $*"
[ -z "$HOLDFAST_CONFIG" ] || cat "$HOLDFAST_CONFIG"
`;

test('kubectl holdfast disks: of each node, also for a configuration that is not applied', () => {
  using scratch = new Scratch('disks-of-nodes');
  mkdirSync(scratch.join('bin'));
  writeFileSync(scratch.join('bin/kubectl'), standIn, { mode: 0o755 });
  writeFileSync(scratch.join('bin/holdfast'), command, { mode: 0o755 });
  writeFileSync(scratch.join('new.yaml'), 'pools: {}\n');
  const env = { PATH: `${scratch.join('bin')}:${process.env['PATH']}`, WORDS: scratch.join('words') };
  const type = (...words: readonly string[]) =>
    spawnSync('sh', [plugin, 'disks', ...words], { cwd: scratch.path, env, encoding: 'utf8' });

  const both = type();
  assert.equal(both.status, 1, 'one could not be asked');
  assert.equal(both.stdout, 'node-a:\nholdfast disks\nnode-b:\n');
  assert.match(both.stderr, /no route/);
  assert.deepEqual(
    [type('--node', 'node-a').status, type('--node', 'node-a', '--json').stdout],
    [0, 'holdfast disks --json\n'],
  );
  const tried = type('--node', 'node-a', '--config', 'new.yaml');
  assert.deepEqual([tried.status, tried.stdout], [0, 'node-a:\nholdfast disks\npools: {}\n']);
  assert.match(type('--node', 'node-c').stderr, /there is no driver on node-c/);
  assert.match(type('--config', 'gone.yaml').stderr, /cannot read gone\.yaml/);
  assert.match(type('shop/data').stderr, /disks takes no volume/);
  assert.doesNotMatch(readFileSync(scratch.join('words'), 'utf8'), /secret|token/i);
});
