import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { describe, it, type TestContext } from 'node:test';
import { inspect } from 'node:util';
import { CommandError, run } from '../../src/command/run.ts';
import { Child } from '../support/child.ts';
import { eventually, soon } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';

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

  it('gives the program nothing to read, the root directory, PATH, the C locale, and what it was told to', async (t) => {
    setVariable(t, 'HOLDFAST_TEST_OURS', 'ours');
    setVariable(t, 'HOLDFAST_TEST_INHERITED', 'inherited');
    const inherit = ['HOLDFAST_TEST_INHERITED', 'HOLDFAST_TEST_MISSING'];
    const { stdout } = await run('env', [], { environment: { HOLDFAST_TEST: 'given', LC_ALL: 'de_DE' }, inherit });
    const expected = [
      'HOLDFAST_TEST=given',
      'HOLDFAST_TEST_INHERITED=inherited',
      'LC_ALL=C',
      `PATH=${process.env['PATH']}`,
    ];
    assert.deepEqual(stdout.trim().split('\n').sort(), expected);
    assert.equal((await shell('cat; pwd')).stdout, '/\n');
  });

  it('gives the program its input, which nobody sees, and does not mind if it is not read', async () => {
    const input = randomBytes(1 << 20).toString('hex');
    const { stdout } = await run('sh', ['-c', 'cat; cat /proc/$$/cmdline /proc/$$/environ'], { input: 'secret\n' });
    assert.equal(stdout.split('secret').length, 2);
    assert.equal((await run('true', [], { input })).exitCode, 0);
  });

  it('tells each line when it is written', async () => {
    using scratch = new Scratch('run');
    const fifo = scratch.join('fifo');
    await run('mkfifo', [fifo]);
    const heard: string[] = [];
    await run('sh', ['-c', 'echo one; read answer <"$1"; echo "$answer" >&2; printf last', 'sh', fifo], {
      onLine: (line, from) => {
        heard.push(`${from}: ${line}`);
        if (line === 'one') writeFileSync(fifo, 'two\n');
      },
    });
    assert.deepEqual(heard.sort(), ['stderr: two', 'stdout: last', 'stdout: one']);
  });

  it('tells all of a line that is longer than lines are', async () => {
    const [heard, lines]: [string[], string[]] = [[], []];
    const text = `${'ü'.repeat(1 << 20)}\nlast`;
    const options = {
      keep: 'end' as const,
      onText: (piece: string) => heard.push(piece),
      onLine: (line: string) => lines.push(line),
    };
    await run('cat', [], { ...options, input: text });
    assert.equal(heard.join(''), text);
    assert.deepEqual([lines[0]?.length, lines[1]], [1 << 16, 'last']);
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

  it('kills a program that nobody waits for any more', async () => {
    const leaving = new AbortController();
    const onLine = () => leaving.abort(new Error('gone'));
    const error = await failure(shell('echo begun; exec sleep 600', { signal: leaving.signal, onLine }));
    assert.equal(error.message, 'sh was cancelled');
    const late = await failure(run('sleep', ['600'], { signal: leaving.signal }));
    assert.equal(late.message, 'sleep was cancelled');
  });

  it('does not wait for what a program leaves running, which may have its outputs', async () => {
    const { stdout } = await soon(shell('sleep 600 & echo $!'), 'it waits for the end of sleep');
    process.kill(Number(stdout), 'SIGKILL');
  });

  it('takes a limited amount of words: the last ones, and only from who said that they will do', async () => {
    const script = 'head -c 2M /dev/zero | tr "\\0" x; printf "the end"';
    const error = await failure(shell(script));
    assert.equal(error.message, 'sh wrote more than 1 MiB, which is too much');
    assert.equal(error.stdout.length, 1 << 20);
    const { stdout } = await shell(script, { keep: 'end' });
    assert.equal(stdout.length, 1 << 20);
    assert.ok(stdout.endsWith('xthe end'));
    assert.match((await failure(shell(`(${script}) >&2; exit 1`))).message, /^sh failed with exit code 1: x{160}$/);
  });

  it('keeps the arguments and the input out of its errors', async () => {
    const options = { input: 'secret', environment: { SECRET: 'secret' } };
    for (const begin of [
      () => shell('exit 1 # secret', options),
      () => shell('kill -KILL $$ # secret', options),
      () => shell('sleep 600 # secret', { ...options, timeoutMs: 50 }),
      () => shell('secret\0', options),
      () => run('no-such-program', ['secret'], options),
    ]) {
      assert.doesNotMatch(inspect(await failure(begin()), { depth: 9, showHidden: true }), /secret/);
    }
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

describe('run, of a program that must finish', () => {
  /** Starts a program in a process of its own, kills that, and lets the program go on: it says something and leaves a file. */
  async function survives(mustFinish: boolean): Promise<boolean> {
    using scratch = new Scratch('run');
    const [fifo, done] = [scratch.join('fifo'), scratch.join('done')];
    await run('mkfifo', [fifo]);
    const script = 'echo $$; read go <"$1"; echo words; echo >"$2"';
    const source = `
      import { run } from '${import.meta.resolve('../../src/command/run.ts')}';
      const onLine = (line) => console.log(line);
      await run('sh', ['-c', ${JSON.stringify(script)}, 'sh', '${fifo}', '${done}'], { mustFinish: ${mustFinish}, onLine });`;
    await using driver = await Child.start([process.execPath, '--input-type=module-typescript', '--eval', source], {
      tells: true,
    });
    const children = readFileSync(`/proc/${driver.pid}/task/${driver.pid}/children`, 'utf8').trim();
    await driver[Symbol.asyncDispose]();
    writeFileSync(fifo, 'go\n');
    await eventually(() => assert.ok(!readdirSync('/proc').includes(children)));
    return readdirSync(scratch.path).includes('done');
  }

  it('goes on when the driver dies, though nobody reads what it says', async () => {
    assert.equal(await survives(true), true);
    assert.equal(await survives(false), false);
  });

  it('has its file locked until it ends, also when the driver dies', async () => {
    using scratch = new Scratch('run');
    const [fifo, lock] = [scratch.join('fifo'), scratch.join('lock')];
    await run('mkfifo', [fifo]);
    writeFileSync(lock, '');
    const source = `
      import { run } from '${import.meta.resolve('../../src/command/run.ts')}';
      const onLine = (line) => console.log(line);
      await run('sh', ['-c', 'echo begun; read go <"$1"', 'sh', '${fifo}'], { mustFinish: true, lockPath: '${lock}', onLine });`;
    await using driver = await Child.start([process.execPath, '--input-type=module-typescript', '--eval', source], {
      tells: true,
    });
    await driver[Symbol.asyncDispose]();
    const isLocked = async () => (await run('flock', ['--nonblock', lock, 'true'], { accept: [0, 1] })).exitCode === 1;
    assert.equal(await isLocked(), true);
    writeFileSync(fifo, 'go\n');
    await eventually(async () => assert.equal(await isLocked(), false));
  });

  it('is told of as others are', async () => {
    const mustFinish = true;
    assert.deepEqual(await shell('echo out; exit 3', { mustFinish, accept: [3] }), {
      exitCode: 3,
      stdout: 'out\n',
      stderr: '',
    });
    assert.equal(
      (await failure(run('no-such-program', [], { mustFinish }))).message,
      'no-such-program is not installed',
    );
    assert.equal((await failure(shell('kill -TERM $$', { mustFinish }))).message, 'sh was ended by SIGTERM');
    using scratch = new Scratch('run');
    const lockPath = scratch.join('lock');
    const locked = await failure(shell('echo words >&2; exit 5', { mustFinish, lockPath }));
    assert.deepEqual([locked.message, locked.exitCode], ['sh failed with exit code 5: words', 5]);
  });
});

/** A variable of this process for as long as a test runs. */
function setVariable(t: TestContext, name: string, value: string): void {
  process.env[name] = value;
  t.after(() => delete process.env[name]);
}

describe('a program in a group', () => {
  const inGroup = (timeoutMs: number, lockPath: string) => ({ inGroup: true, timeoutMs, lockPath }) as const;

  it('is killed at its deadline, and its children are', async () => {
    using scratch = new Scratch('group');
    const pidFile = scratch.join('pid');
    const script = `sleep 600 & echo $! >${pidFile}; sleep 600`;
    await assert.rejects(run('sh', ['-c', script], inGroup(500, scratch.join('lock'))), /did not finish within 0.5 s/);
    const pid = Number(readFileSync(pidFile, 'utf8'));
    await eventually(() => assert.throws(() => process.kill(pid, 0), /ESRCH/));
  });

  it('leaves no children when it fails, and may when it does not', async () => {
    using scratch = new Scratch('group');
    const pidFile = scratch.join('pid');
    const script = (exitCode: number) => `sleep 600 >/dev/null 2>&1 & echo $! >${pidFile}; exit ${exitCode}`;
    const pid = () => Number(readFileSync(pidFile, 'utf8'));
    await assert.rejects(run('sh', ['-c', script(3)], inGroup(5_000, scratch.join('lock'))), /exit code 3/);
    await eventually(() => assert.throws(() => process.kill(pid(), 0), /ESRCH/));
    await run('sh', ['-c', script(0)], inGroup(5_000, scratch.join('lock')));
    process.kill(pid(), 'SIGKILL');
  });

  it('waits for another one with its lock, no longer than its time', async () => {
    using scratch = new Scratch('group');
    const lock = scratch.join('lock');
    await using _holder = await Child.start(['flock', '--no-fork', lock, 'sleep', '600'], { becomes: 'sleep' });
    await eventually(() => assert.throws(() => execFileSync('flock', ['--nonblock', lock, 'true'])));
    await assert.rejects(run('true', [], inGroup(300, lock)), /did not finish within 0.3 s/);
  });

  it('is killed when it writes without end, to either output, and its children are', async () => {
    using scratch = new Scratch('group');
    const options = { ...inGroup(20_000, scratch.join('lock')), outputLimitBytes: 1 << 16 };
    for (const [script, words] of [
      ['yes', /wrote more than 64 KiB/],
      ['yes >&2', /wrote more than 16 MiB/],
      ['yes & wait', /wrote more than 64 KiB/],
    ] as const) {
      const failure = await run('sh', ['-c', `echo $$ >${scratch.join('pid')}; ${script}`], options).catch(
        (error: unknown) => error,
      );
      assert.ok(failure instanceof CommandError && failure.limit === 'output', `${failure}`);
      assert.match(failure.message, words);
      const pid = Number(readFileSync(scratch.join('pid'), 'utf8'));
      await eventually(() => assert.throws(() => process.kill(pid, 0), /ESRCH/));
    }
  });

  it('has a limit for its output', async () => {
    using scratch = new Scratch('group');
    const options = { ...inGroup(20_000, scratch.join('lock')), outputLimitBytes: 1 << 16 };
    await assert.rejects(run('sh', ['-c', 'yes | head -c 100000'], options), /wrote more than 64 KiB/);
    const { stdout } = await run('sh', ['-c', 'yes | head -c 100000; echo end'], { ...options, keep: 'end' });
    assert.ok(stdout.length === 1 << 16 && stdout.endsWith('end\n'));
  });
});
