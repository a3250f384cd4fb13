import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, chownSync, mkdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, afterEach, beforeEach, describe, test } from 'node:test';
import type { ContextHarness } from '../support/context-harness.ts';
import { eventually } from '../support/eventually.ts';
import { loopsOver } from '../support/left-behind.ts';
import { mountCapability } from '../support/node-volume.ts';
import { openExecHarness, ProgramDirectory } from '../support/programs.ts';
import { refusedBriefly } from '../support/refused.ts';

/* Programs that hang, lie, flood and leak: each hurts its own volume alone. */

const directory = new ProgramDirectory();
const lines: string[] = [];
const write = (fields: Record<string, unknown>, message: string) => lines.push(`${JSON.stringify(fields)} ${message}`);
const log = { info: write, warn: write, error: write };
let harness: ContextHarness;

const works = directory.example('tmpfs');
const init = `[ "$1" != init ] || { echo '{"status":"Success","capabilities":{"attach":false}}'; exit 0; }`;
/** What a hostile program does in mount; its unmount is the one of a good program. */
const scripts = {
  hangs: `sleep 600 & echo $! >$(dirname "$0")/child; sleep 600`,
  garbage: `echo 'mount: done (topsecret)'; exit 0`,
  'no-status': `echo '{"device": "/dev/sda"}'`,
  'other-status': `echo '{"status": "OK"}'`,
  floods: `yes '{"status":"Success"}' | head -c 5000000`,
  'floods-stderr': `yes topsecret | head -c 5000000 >&2; mount -t tmpfs x "$2"; echo '{"status":"Success"}'`,
  leaks: `echo "$3" >&2; echo password: topsecret >&2; printf '{"status":"Failure","message":"bad password topsecret, %s"}' "$(printf topsecret | base64)"; exit 1`,
  dies: `kill -SEGV $$`,
  lies: `echo '{"status":"Success"}'`,
  'fails-well': `mount -t tmpfs x "$2"; echo '{"status":"Success"}'; exit 3`,
  forks: `sleep 600 & echo $! >$(dirname "$0")/child; mount -t tmpfs x "$2"; echo '{"status":"Success"}'`,
  escapes: `printf '%s' '{"status":"Failure","message":"\\u001b[31m a\\nb"}'; exit 1`,
} as const;
type Name = keyof typeof scripts;

/** Fails once it has put something into its directory, or in its place, as the file `mess` says. */
const dirty = `mess=$(cat "$(dirname "$0")/mess")
[ "$1" != mount ] || [ "$mess" = none ] || {
  [ "$mess" = file ] && echo text >"$2/file"
  [ "$mess" = link ] && rmdir "$2" && ln -s "$2.away" "$2"
  echo '{"status":"Failure","message":"it cannot"}'
  exit 1
}`;

function path(name: Name): string {
  return directory.script(name, `${init}\n[ "$1" = mount ] || exec ${works} "$@"\n${scripts[name]}`);
}

beforeEach(async () => {
  lines.length = 0;
  const names = Object.keys(scripts) as Name[];
  harness = await openExecHarness(
    [
      ...names.map((name) => ({
        name,
        path: path(name),
        timeoutMs: name === 'hangs' ? 1_000 : 20_000,
        secretsInArguments: true,
      })),
      { name: 'works', path: works },
      { name: 'says-nothing', path: directory.script('says-nothing', 'echo \'{"status":"Not supported"}\'') },
      {
        name: 'no-device',
        presents: 'device',
        path: directory.script('no-device', `echo '{"status":"Success","device":"/dev/null"}'`),
      },
      {
        name: 'secret-device',
        protocol: 'json',
        presents: 'device',
        path: directory.script('secret-device', `cat >/dev/null; echo '{"status":"Success","device":"topsecret"}'`),
      },
      { name: 'dirty', path: directory.script('dirty', `${init}\n${dirty}\nexec ${works} "$@"`) },
      {
        name: 'held-device',
        presents: 'device',
        path: directory.script('held-device', `echo '{"status":"Success","device":"'$(cat $(dirname "$0")/device)'"}'`),
      },
    ],
    { log },
  );
});
afterEach(() => harness[Symbol.asyncDispose]());
after(() => directory[Symbol.dispose]());

const shared = mountCapability('MULTI_NODE_MULTI_WRITER');
const stage = (program: string, handle = 'pv-1', secrets: Record<string, string> = {}) =>
  harness.volume(handle, shared).stage({ volume_context: { kind: 'exec', program }, secrets });

async function refused(call: Promise<unknown>, code: string, message: RegExp): Promise<void> {
  const error = await refusedBriefly(call, code, message);
  assert.doesNotMatch(error.message, /topsecret|dG9wc2VjcmV0/);
}

function nothingIsLeft(): void {
  assert.deepEqual([harness.mounts(), harness.notes()], [[], []]);
  assert.doesNotMatch(lines.join('\n'), /topsecret|dG9wc2VjcmV0/);
}

describe('a program', () => {
  test('that hangs is killed with its children at its deadline, and other volumes do not wait', async () => {
    const hanging = stage('hangs');
    hanging.catch(() => undefined);
    await harness.volume('pv-2', shared).stage({ volume_context: { kind: 'exec', program: 'works' } });
    await refused(
      hanging,
      'UNAVAILABLE',
      /program hangs did not finish mount within 1 s: it was killed with its children/,
    );
    const child = Number(readFileSync(join(directory.path, 'child'), 'utf8'));
    await eventually(() => assert.throws(() => process.kill(child, 0), /ESRCH/));
    await harness.volume('pv-2', shared).unstage();
  });

  test('whose answer is none is an error without a word of it', async () => {
    const none = /program (garbage|no-status|other-status) failed in mount: its answer is no JSON with a status/;
    for (const name of ['garbage', 'no-status', 'other-status']) await refused(stage(name), 'INTERNAL', none);
    nothingIsLeft();
  });

  test('that floods its outputs', async () => {
    await refused(
      stage('floods'),
      'INTERNAL',
      /program floods was killed in mount: it wrote more than 64 KiB to its standard output/,
    );
    nothingIsLeft();
    await stage('floods-stderr', 'pv-1', { password: 'topsecret' });
    assert.ok(lines.length > 0 && lines.length < 30, `${lines.length} lines`);
    assert.doesNotMatch(lines.join('\n'), /topsecret/);
  });

  test('that prints secrets: none gets into the log or an error', async () => {
    await refused(stage('leaks', 'pv-1', { password: 'topsecret' }), 'UNAVAILABLE', /bad password \*\*\*, \*\*\*/);
    assert.match(lines.join('\n'), /password: \*\*\*/);
    nothingIsLeft();
  });

  test('that dies of a signal, or claims success and fails', async () => {
    await refused(stage('dies'), 'INTERNAL', /program dies failed in mount: it ended with signal 11/);
    await refused(stage('fails-well'), 'INTERNAL', /says Success in mount, and ended with exit code 3/);
    nothingIsLeft();
  });

  test('that claims what is not so', async () => {
    await refused(
      stage('lies'),
      'FAILED_PRECONDITION',
      /answers mount with Success, and nothing is mounted at the directory/,
    );
    await refused(stage('says-nothing'), 'FAILED_PRECONDITION', /Not supported to init/);
    const device = (program: string) =>
      harness.volume('pv-1', mountCapability()).stage({ volume_context: { kind: 'exec', program } });
    await refused(device('no-device'), 'FAILED_PRECONDITION', /attached "\/dev\/null", which is no block device/);
    nothingIsLeft();
    const held = harness.scratch.join('held');
    mkdirSync(held);
    const image = harness.image('held.img');
    execFileSync('mount', ['-o', 'loop', image, held]);
    const [loop = ''] = loopsOver(harness.scratch.path);
    writeFileSync(join(directory.path, 'device'), loop);
    await refused(device('held-device'), 'FAILED_PRECONDITION', /which is in use by something else on this node/);
    assert.deepEqual(harness.mounts(), [held]);
  });

  test('that leaves a child behind is not waited for', async () => {
    await stage('forks');
    const child = Number(readFileSync(join(directory.path, 'child'), 'utf8'));
    process.kill(child, 'SIGKILL');
  });

  test('that answers a secret as its device: it is in no error', async () => {
    const volume_context = { kind: 'exec', program: 'secret-device' };
    const staged = harness
      .volume('pv-1', mountCapability())
      .stage({ volume_context, secrets: { password: 'topsecret' } });
    await refused(staged, 'FAILED_PRECONDITION', /says that it has attached "\*\*\*", which is no block device/);
    nothingIsLeft();
  });

  test('that leaves a file in its directory, or a link in its place: neither hinders what comes then', async () => {
    for (const mess of ['file', 'link']) {
      writeFileSync(join(directory.path, 'mess'), mess);
      await refused(stage('dirty', mess), 'UNAVAILABLE', /program dirty failed in mount: it cannot/);
      nothingIsLeft();
      writeFileSync(join(directory.path, 'mess'), 'none');
      const volume = harness.volume(mess, shared);
      await volume.stage({ volume_context: { kind: 'exec', program: 'dirty' } });
      await volume.unstage();
      nothingIsLeft();
    }
    assert.match(lines.join('\n'), /programs\/pv-[^/]*\/mount.* a program has left something there/);
  });

  test('that says control characters', async () => {
    await refused(stage('escapes'), 'UNAVAILABLE', /failed in mount: \[31m a b/);
    nothingIsLeft();
  });
});

describe('a program is not run', () => {
  const notRun = (words: RegExp) => refused(stage('works'), 'FAILED_PRECONDITION', words);
  const restored = async (change: () => () => void, words: RegExp) => {
    const undo = change();
    try {
      await notRun(words);
    } finally {
      undo();
    }
    nothingIsLeft();
  };

  test('if others may write to it, or own it, or it is none, or it moves', async () => {
    const chmod = (file: string, mode: number) => () => {
      chmodSync(file, mode);
      return () => chmodSync(file, 0o755);
    };
    await restored(chmod(works, 0o757), /others than root may write to \/run\/.*tmpfs: chmod go-w/);
    await restored(chmod(works, 0o775), /others than root may write/);
    await restored(chmod(works, 0o644), /no executable file/);
    await restored(chmod(dirname(works), 0o777), /others than root may write to \/run\/holdfast-programs-[^/]*: chmod/);
    await restored(() => {
      chownSync(works, 1000, 0);
      return () => chownSync(works, 0, 0);
    }, /belongs to user 1000: only root may own it/);
    await restored(() => {
      renameSync(works, `${works}.real`);
      return () => renameSync(`${works}.real`, works);
    }, /there is no \/run/);
    await restored(() => {
      renameSync(works, `${works}.real`);
      symlinkSync(`${works}.real`, works);
      return () => renameSync(`${works}.real`, works);
    }, /leads through a symbolic link: name .*tmpfs\.real/);
    await restored(() => {
      renameSync(works, `${works}.real`);
      mkdirSync(`${works}-d`);
      writeFileSync(works, '', { mode: 0o777 });
      chmodSync(works, 0o777);
      return () => renameSync(`${works}.real`, works);
    }, /others than root may write/);
    await stage('works');
  });

  test('if it was replaced while its volume was in use: the unstage says so, and works once it is as it was', async () => {
    const volume = harness.volume('pv-1', shared);
    const volume_context = { kind: 'exec', program: 'works' };
    await volume.stage({ volume_context });
    await volume.publish({ volume_context });
    chmodSync(works, 0o777);
    await volume.unpublish();
    await refused(volume.unstage(), 'FAILED_PRECONDITION', /others than root may write/);
    chmodSync(works, 0o755);
    await volume.unstage();
    nothingIsLeft();
  });
});
