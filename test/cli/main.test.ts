import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, test } from 'node:test';
import manifest from '../../package.json' with { type: 'json' };
import { holdfast } from '../support/command.ts';
import { driverCommand, environmentFor } from '../support/driver.ts';
import { Scratch } from '../support/scratch.ts';

describe('the command line', () => {
  test('--version', async () => {
    assert.deepEqual(await holdfast(['--version'], {}), { code: 0, stdout: `${manifest.version}\n`, stderr: '' });
  });

  test('--help names every command', async () => {
    const { code, stdout } = await holdfast(['--help'], {});
    assert.equal(code, 0);
    for (const command of ['serve', 'pools', 'volumes', 'snapshots', 'trash', 'who', 'export', 'doctor', 'config'])
      assert.match(stdout, new RegExp(`^  ${command}\\b`, 'm'));
  });

  for (const args of [[], ['pols'], ['pools', '--jsn'], ['pools', 'extra'], ['volumes', 'a', 'b'], ['serve', 'now']]) {
    test(`'holdfast ${args.join(' ')}' is refused with help`, async () => {
      const { code, stdout, stderr } = await holdfast(args, {});
      assert.equal(code, 2);
      assert.equal(stdout, '');
      assert.match(stderr, /Usage: holdfast|holdfast --help/);
    });
  }

  for (const [args, said] of [
    [['pols'], "unknown command 'pols' (did you mean 'pools'?)"],
    [['pools', '--jsn'], "unknown option '--jsn' (did you mean '--json'?)"],
    [['who'], "missing required argument 'VOLUME'"],
    [['completion', 'bsh'], "(did you mean 'bash'?)"],
    [['export', '--reclaim-policy', 'retain'], "It can be Retain or Delete (did you mean 'Retain'?)"],
  ] as const) {
    test(`'holdfast ${args.join(' ')}' says what was meant, in one line`, async () => {
      const { stderr } = await holdfast(args, {});
      assert.match(stderr, /^holdfast: [^\n]+; holdfast --help shows what there is\n$/);
      assert.ok(stderr.includes(said), stderr);
      const forPrograms = await holdfast([...args, '--json'], {});
      assert.deepEqual([forPrograms.code, forPrograms.stdout], [2, '']);
      assert.equal(JSON.parse(forPrograms.stderr).code, 'INVALID_ARGUMENT');
    });
  }

  test('every mistake in the configuration is printed, with its place', async () => {
    using scratch = new Scratch('cli');
    const environment = environmentFor(scratch, {
      config: 'pools:\n  default:\n    sise: 1Gi\n    overcommit: 0\n',
      environment: { HOLDFAST_LOG_LEVEL: 'loud' },
    });
    for (const command of ['serve', 'pools', 'volumes', 'doctor']) {
      const { code, stdout, stderr } = await holdfast([command], environment);
      assert.equal(code, 2);
      assert.equal(stdout, '');
      assert.match(stderr, /holdfast\.yaml:3:5: pools\.default\.sise: unknown key \(did you mean 'size'\?\)$/m);
      assert.match(stderr, /holdfast\.yaml:4:5: pools\.default\.overcommit/m);
      assert.match(stderr, /^holdfast: HOLDFAST_LOG_LEVEL: 'loud' must be one of /m);
      assert.equal(
        stderr
          .trimEnd()
          .split('\n')
          .filter((line) => !line.startsWith('holdfast: ')).length,
        0,
      );
    }
    const { stderr } = await holdfast(['pools', '--json'], environment);
    for (const line of stderr.trimEnd().split('\n')) assert.equal(JSON.parse(line).code, 'INVALID_ARGUMENT');
  });

  test('a reader that stops reading is no error', async () => {
    using scratch = new Scratch('cli');
    const [program = '', ...args] = driverCommand;
    const child = spawn(program, [...args, 'doctor'], {
      env: environmentFor(scratch),
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    child.stdout.destroy();
    let stderr = '';
    child.stderr.on('data', (chunk) => {
      stderr += chunk;
    });
    const [code] = await once(child, 'close');
    assert.equal(stderr, '');
    assert.equal(code, 0);
  });

  test('nobody but root gets a sentence, not a stack trace', async () => {
    using scratch = new Scratch('cli');
    const nobody = 65_534;
    for (const args of [['pools'], ['volumes'], ['export'], ['trash'], ['serve']]) {
      const { stderr } = await holdfast(args, environmentFor(scratch), { uid: nobody });
      assert.doesNotMatch(stderr, /^ +at /m);
    }
  });
});
