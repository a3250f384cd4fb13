import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, rmSync, statfsSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, beforeEach, test } from 'node:test';
import type { ContextHarness } from '../support/context-harness.ts';
import { eventually } from '../support/eventually.ts';
import { detachLoopDevice, loopsOver } from '../support/left-behind.ts';
import { blockCapability, mountCapability } from '../support/node-volume.ts';
import { openExecHarness, ProgramDirectory } from '../support/programs.ts';

/* Programs that get JSON on standard input. */

const directory = new ProgramDirectory();
let harness: ContextHarness;

beforeEach(async () => {
  const path = directory.example('json');
  harness = await openExecHarness([
    { name: 'files', path, protocol: 'json' },
    { name: 'disks', path, protocol: 'json', presents: 'device' },
    { name: 'looks', path: directory.script('looks', looks), protocol: 'json' },
    { name: 'twins', path: directory.script('twins', twins), protocol: 'json', presents: 'device' },
  ]);
});
afterEach(() => harness[Symbol.asyncDispose]());
after(() => directory[Symbol.dispose]());

/** Answers stage once it was called twice, and each time with the same device. */
const twins = `cat >/dev/null; here=$(dirname "$0")
if [ "$1" = stage ]; then
  touch "$here/call.$$"
  while [ "$(ls "$here"/call.* | wc -l)" -lt 2 ]; do sleep 0.01; done
  echo '{"status":"Success","device":"'"$(cat "$here/device")"'"}'
else echo '{"status":"Success"}'; fi`;

/** Mounts a tmpfs, and answers condition with what lies beside it. */
const looks = `request=$(cat); here=$(dirname "$0"); directory=$(printf %s "$request" | jq -r .directory)
case "$1" in
  stage) mountpoint -q "$directory" || mount -t tmpfs none "$directory"; echo '{"status":"Success"}' ;;
  unstage) mountpoint -q "$directory" && umount "$directory"; echo '{"status":"Success"}' ;;
  condition) echo "$request" >>"$here/looks.trace"; cat "$here/looks.answer"; grep -q Success "$here/looks.answer" ;;
esac`;

function nothingIsLeft(): void {
  assert.deepEqual([harness.mounts(), harness.notes(), loopsOver(harness.scratch.path)], [[], [], []]);
  assert.deepEqual(readdirSync(harness.scratch.join('data', 'exec')), ['locks']);
}

test('a directory is staged, published and undone, and secrets are on standard input alone', async () => {
  const trace = harness.scratch.join('trace');
  const volume_context = { kind: 'exec', program: 'files', fsType: 'x', 'options.trace': trace };
  const volume = harness.volume('pv-1', mountCapability('MULTI_NODE_MULTI_WRITER'));
  await volume.stage({ volume_context, secrets: { password: 'topsecret' } });
  await volume.publish({ volume_context });
  writeFileSync(join(volume.target, 'file'), 'data');
  await harness.restart();
  await volume.stage({ volume_context, secrets: { password: 'topsecret' } });
  await volume.down();
  nothingIsLeft();
  const lines = readFileSync(trace, 'utf8').trim().split('\n');
  const requests = lines.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line));
  const options = { trace };
  const common = { version: 1, volume: 'pv-1', node: 'node-1', options, readOnly: false, fsType: 'x' };
  const [shown] = requests.map((request) => request.directory);
  assert.match(shown, /kubelet\/programs\/pv-[a-z2-7]{26}\/mount$/);
  assert.deepEqual(requests, [
    { ...common, verb: 'stage', directory: shown, secrets: { password: 'topsecret' } },
    { ...common, verb: 'unstage', directory: shown, secrets: {} },
  ]);
  assert.doesNotMatch(lines.filter((line) => !line.startsWith('{')).join('\n'), /topsecret/);
});

test('a device is staged as a filesystem, grown, staged as it is, and undone', async () => {
  const image = harness.image('a.img', 'xfs');
  const volume_context = { kind: 'exec', program: 'disks', 'options.image': image };
  const volume = harness.volume('pv-1', mountCapability('SINGLE_NODE_WRITER', [], 'xfs'));
  await volume.stage({ volume_context });
  await volume.publish({ volume_context });
  truncateSync(image, 400 << 20);
  await volume.expand(400n << 20n);
  assert.ok(statfsSync(volume.target).blocks * statfsSync(volume.target).bsize > 300 << 20);
  await assert.rejects(volume.expand(800n << 20n), /leaves its device with 419430400 bytes, not 838860800/);
  await harness.restart();
  await volume.down();
  nothingIsLeft();
  const block = harness.volume('pv-2', blockCapability());
  await block.stage({ volume_context });
  await block.publish({ volume_context });
  const type = execFileSync('blkid', ['-po', 'value', '-s', 'TYPE', block.target], { encoding: 'utf8' });
  assert.equal(type.trim(), 'xfs');
  await block.down();
  nothingIsLeft();
});

test('a program may look at its volumes itself, and is asked no more if it does not', async () => {
  const volume_context = { kind: 'exec', program: 'looks' };
  const volume = harness.volume('pv-1', mountCapability());
  await volume.stage({ volume_context });
  await volume.publish({ volume_context });
  const answers = async (answer: object | string) => {
    writeFileSync(join(directory.path, 'looks.answer'), typeof answer === 'string' ? answer : JSON.stringify(answer));
    const { volume_condition } = await volume.stats();
    return [volume_condition?.abnormal, volume_condition?.message];
  };
  const success = { status: 'Success' };
  const degraded = { ...success, abnormal: true, message: 'one of two replicas\u001b[31m is missing' };
  assert.deepEqual(await answers(degraded), [true, 'one of two replicas [31m is missing']);
  assert.deepEqual(await answers({ ...success, abnormal: false, message: 'fine' }), [false, 'fine']);
  for (const wrong of [success, { status: 'Failure', message: 'no' }, 'no JSON']) {
    const [abnormal, message] = await answers(wrong);
    assert.equal(abnormal, true);
    assert.match(String(message), /^The condition of this volume is not known: volume pv-1: program looks /);
    assert.ok(Buffer.byteLength(String(message)) <= 128);
  }
  const [request] = readFileSync(join(directory.path, 'looks.trace'), 'utf8').split('\n');
  const { directory: shown, ...rest } = JSON.parse(request ?? '');
  assert.match(shown, /kubelet\/programs\/.*\/mount$/);
  const named = { version: 1, verb: 'condition', volume: 'pv-1', node: 'node-1', options: {} };
  assert.deepEqual(rest, { ...named, readOnly: false, secrets: {} });
  assert.deepEqual(await answers({ status: 'Not supported' }), [
    false,
    'What the program of this volume made is there.',
  ]);
  // It is not asked any more.
  assert.deepEqual(await answers(degraded), [false, 'What the program of this volume made is there.']);
  await volume.down();
  nothingIsLeft();
});

test('a program that looks for long is not waited for: its volume is as it was before', async () => {
  const volume_context = { kind: 'exec', program: 'looks' };
  const volume = harness.volume('pv-1', mountCapability());
  await volume.stage({ volume_context });
  await volume.publish({ volume_context });
  const answer = join(directory.path, 'looks.answer');
  rmSync(answer, { force: true });
  execFileSync('mkfifo', [answer]);
  const condition = async () => (await volume.stats()).volume_condition;
  assert.equal((await condition())?.abnormal, false);
  // It reads its answer twice, unless it was killed by now.
  const text = '{"status":"Success","abnormal":true,"message":"degraded"}';
  for (let time = 0; time < 2; time++) spawnSync('timeout', ['5', 'sh', '-c', `echo '${text}' >${answer}`]);
  rmSync(answer);
  writeFileSync(answer, text);
  await eventually(async () => assert.deepEqual(await condition(), { abnormal: true, message: 'degraded' }));
  rmSync(answer);
  await volume.down();
  nothingIsLeft();
});

test('a device that went away is staged once more', async () => {
  const volume_context = { kind: 'exec', program: 'disks', 'options.image': harness.image('a.img') };
  const volume = harness.volume('pv-1', mountCapability());
  await volume.stage({ volume_context });
  execFileSync('umount', [volume.staging]);
  for (const device of loopsOver(harness.scratch.path)) detachLoopDevice(device);
  await volume.stage({ volume_context });
  await volume.unstage();
  nothingIsLeft();
});

for (const [what, capability] of [
  ['filesystem', mountCapability()],
  ['block device', blockCapability()],
] as const) {
  test(`a device that two programs answer at one time is the ${what} of one volume`, async () => {
    const volume_context = { kind: 'exec', program: 'twins' };
    const image = harness.image('a.img');
    const device = execFileSync('losetup', ['--find', '--show', image], { encoding: 'utf8' }).trim();
    writeFileSync(join(directory.path, 'device'), device);
    try {
      const volumes = ['one', 'other'].map((handle) => harness.volume(handle, capability));
      // The first one to look may be the first one to write, too: not four times.
      for (let round = 0; round < 4; round++) {
        const outcomes = await Promise.allSettled(volumes.map((volume) => volume.stage({ volume_context })));
        for (const name of readdirSync(directory.path).filter((each) => each.startsWith('call.'))) {
          rmSync(join(directory.path, name));
        }
        const refusals = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [String(outcome.reason)] : []));
        assert.equal(refusals.length, 1, refusals.join('\n'));
        assert.match(refusals.join(), /has attached \/dev\/loop\d+, which is volume (one|other) already/);
        for (const volume of volumes) await volume.down();
      }
    } finally {
      detachLoopDevice(device);
    }
    nothingIsLeft();
  });
}
