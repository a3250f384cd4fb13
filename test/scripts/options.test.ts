import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';

const project = fileURLToPath(new URL('../..', import.meta.url));

/** Those that README and CONTRIBUTING.md have options or words of. */
const scripts = [
  'csi-sanity/run.ts',
  'scripts/measure.ts',
  'deploy/image/build.ts',
  'deploy/release/build.ts',
  'scripts/build.ts',
  'scripts/demo.ts',
  'test/bench/devices/run.ts',
  'test/bench/fleet/run.ts',
  'test/bench/run.ts',
  'test/cluster/e2e.ts',
  'test/cluster/run.ts',
  'test/crash/run.ts',
  'test/docs/run.ts',
  'test/mutants/run.ts',
  'test/soak/run.ts',
  'test/vm/run.ts',
];

function run(file: string, ...args: string[]) {
  return spawnSync(process.execPath, [file, ...args], { cwd: project, encoding: 'utf8' });
}

describe('what is typed behind the name of a script', () => {
  for (const file of scripts) {
    test(`${file} tells how it is typed, and does nothing when that is a mistake`, () => {
      const help = run(file, '--help');
      assert.deepEqual([help.status, help.stderr], [0, '']);
      assert.match(help.stdout, /npm run [a-z0-9:]+ -- \[/);
      const { status, stderr, stdout } = run(file, '--nonsense');
      assert.deepEqual([status, stdout], [2, '']);
      assert.equal(stderr, `Unknown option '--nonsense'\n\n${help.stdout}`);
    });
  }

  test('scripts/test.sh tells how it is typed', () => {
    const { status, stderr, stdout } = spawnSync('bash', ['scripts/test.sh', '--help'], {
      cwd: project,
      encoding: 'utf8',
    });
    assert.deepEqual([status, stderr], [0, '']);
    assert.match(stdout, /^usage: npm test -- \[/);
  });

  for (const [file, args, problem] of [
    ['deploy/image/build.ts', ['--load', 'k0s'], '--load wants one of kind, k3s, microk8s, minikube, containerd'],
    ['test/vm/run.ts', ['no-such-test'], 'no test file has a name that begins with: no-such-test'],
    ['test/vm/run.ts', ['--cuts', 'ten'], '--cuts wants a whole number, and "ten" is none'],
    ['csi-sanity/run.ts', ['ext5'], 'there is no mode: ext5'],
    ['test/vm/run.ts', ['lvm', 'no-such-test'], 'no test file has a name that begins with: no-such-test'],
    ['csi-sanity/run.ts', ['ext4', 'ext5'], 'there is no mode: ext5'],
    ['test/cluster/run.ts', ['no-such-test'], 'no test file has this word in its name: no-such-test'],
    ['test/cluster/run.ts', ['fleet/copies', 'fleet/nope'], 'no test file has this word in its name: fleet/nope'],
    ['test/cluster/e2e.ts', ['--filesystem', 'zfs'], '--filesystem wants ext4 or xfs'],
    ['test/docs/run.ts', ['no-such-page'], 'no page has this word in its name: no-such-page'],
    ['test/docs/run.ts', ['kind', 'no-such-page'], 'no page has this word in its name: no-such-page'],
    [
      'test/mutants/run.ts',
      ['no-such-safeguard'],
      'no safeguard has this word in its name, its file, or the file of its test: no-such-safeguard',
    ],
    [
      'test/mutants/run.ts',
      ['fsync', 'no-such-safeguard', 'nor-this'],
      'no safeguard has this word in its name, its file, or the file of its test: no-such-safeguard, nor-this',
    ],
  ] as const) {
    test(`${file} ${args.join(' ')}: a run of nothing is no success`, () => {
      const { status, stderr } = run(file, ...args);
      assert.equal(stderr.split('\n')[0], problem);
      assert.equal(status, 2);
    });
  }
});
