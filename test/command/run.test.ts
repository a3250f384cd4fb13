import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { describe, it } from 'node:test';
import { CommandError, run } from '../../src/command/run.ts';

const shell = (script: string, options?: Parameters<typeof run>[2]) => run('sh', ['-c', script], options);

async function failure(work: Promise<unknown>): Promise<CommandError> {
  const error = await work.then(
    () => assert.fail('it did not fail'),
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof CommandError, `${error}`);
  return error;
}

describe('run', () => {
  it('yields what the program wrote to each of its outputs', async () => {
    assert.deepEqual(await shell('echo to stdout; echo to stderr >&2'), {
      exitCode: 0,
      stdout: 'to stdout\n',
      stderr: 'to stderr\n',
    });
  });

  it('gives the program nothing to read, the C locale, and the variables that differ', async () => {
    const environment = { HOLDFAST_TEST: 'given', HOME: undefined };
    const { stdout } = await shell('cat; echo "$LC_ALL $HOLDFAST_TEST $HOME."', { environment });
    assert.equal(stdout, 'C given .\n');
  });

  it('leaves the program no descriptor of ours, no blocked and no ignored signal', async () => {
    const held = readdirSync('/proc/self/fd').length;
    const { stdout } = await shell("echo /proc/self/fd/*; grep -E '^Sig(Blk|Ign)' /proc/self/status");
    const [descriptors = '', ...signals] = stdout.trim().split('\n');
    // Its own three, and the directory that lists them; a test's runner may leave us some without close-on-exec.
    assert.ok(descriptors.split(' ').length < held, descriptors);
    assert.deepEqual(
      signals.map((line) => Number.parseInt(line.split('\t')[1] ?? '', 16)),
      [0, 0],
    );
  });

  it('accepts the exit codes it was told to, and no others', async () => {
    assert.equal((await shell('exit 1', { accept: [0, 1] })).exitCode, 1);
    const error = await failure(shell('echo out; echo why >&2; exit 3'));
    assert.equal(error.message, 'sh failed with exit code 3: why');
    assert.deepEqual([error.exitCode, error.stdout, error.stderr], [3, 'out\n', 'why\n']);
  });

  it('says that a program is not installed', async () => {
    const error = await failure(run('no-such-program', []));
    assert.equal(error.message, 'no-such-program is not installed');
    assert.equal(error.exitCode, undefined);
  });

  it('says which signal ended the program', async () => {
    assert.equal((await failure(shell('kill -TERM $$'))).message, 'sh was ended by SIGTERM');
  });

  it('kills a program that takes too long', async () => {
    const error = await failure(run('sleep', ['600'], { timeoutMs: 50 }));
    assert.equal(error.message, 'sleep did not finish within 0.05 s');
  });

  it('takes a limited amount of words', async () => {
    const error = await failure(shell('head -c 2M /dev/zero | tr "\\0" x'));
    assert.equal(error.stdout.length, 1 << 20);
  });

  it('refuses an argument that C would cut short', async () => {
    assert.match((await failure(run('echo', ['a\0b']))).message, /^echo could not be started \(EINVAL\)/);
  });

  it('tells apart many programs that end at once, and leaves no descriptor open', async () => {
    await shell('exit 0');
    const before = readdirSync('/proc/self/fd').length;
    const codes = Array.from({ length: 64 }, (_, index) => index);
    const ended = await Promise.all(codes.map((code) => shell(`exit ${code}`, { accept: codes })));
    assert.deepEqual(
      ended.map(({ exitCode }) => exitCode),
      codes,
    );
    assert.equal(readdirSync('/proc/self/fd').length, before);
  });
});
