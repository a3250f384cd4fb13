import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { type Mistake, SectionReader } from '../../../settings/section.ts';
import { parseHandle, type VolumeHandle } from '../../../volume/handle.ts';
import { Secrets } from '../../../volume/secrets.ts';
import { parseAnswer } from './answer.ts';
import { type ProgramConfig, readProgram } from './config.ts';
import { execNodeKind } from './kind.ts';
import { showsMount } from './look.ts';
import { ExecNotes, parseExecNote, serializeExecNote } from './notes.ts';
import { presentable } from './run-program.ts';

const queue = new DiskQueue('test', 1);
const handle = (words: string): VolumeHandle => parseHandle(words) ?? assert.fail(words);

function read(name: string, section: unknown): { program: ProgramConfig; mistakes: string[] } {
  const mistakes: Mistake[] = [];
  const program = readProgram(name, new SectionReader(section, ['programs', name], mistakes));
  return { program, mistakes: mistakes.map(({ message, path }) => `${path.join('.')}: ${message}`) };
}

describe('the configuration of a program', () => {
  test('has defaults', () => {
    const { mistakes, program } = read('cifs', { path: '/usr/libexec//cifs', protocol: 'flexvolume' });
    assert.deepEqual(mistakes, []);
    assert.deepEqual(program, {
      ...{ name: 'cifs', path: '/usr/libexec/cifs', protocol: 'flexvolume', presents: 'directory', timeoutMs: 60_000 },
      ...{ secretsInArguments: false, detachBy: 'device', snapshots: false },
    });
  });

  test('is refused in words', () => {
    const { mistakes } = read('A b', { path: 'cifs', protocol: 'json', secretsInArguments: true, pth: 1 });
    assert.equal(mistakes.length, 4);
    assert.match(mistakes.join('\n'), /pth: unknown key/);
    assert.match(mistakes.join('\n'), /name of a program has 1 to 63/);
    assert.match(mistakes.join('\n'), /path: must be an absolute path/);
    assert.match(mistakes.join('\n'), /secretsInArguments: is for the protocol flexvolume alone/);
    const flexvolume = read('a', { path: '/a', protocol: 'flexvolume', snapshots: true });
    assert.deepEqual(flexvolume.mistakes, ['programs.a.snapshots: is for the protocol json alone']);
    assert.match(read('a', {}).mistakes.join('\n'), /needs a path[\s\S]*needs a protocol/);
  });
});

test('an answer is one JSON object with a status, and keys in any case', () => {
  assert.equal(parseAnswer('{"Status":"Success","DEVICE":"/dev/sda"}')?.device, '/dev/sda');
  assert.equal(parseAnswer('{"status":"Success","device":""}')?.device, undefined);
  const { capabilities } = parseAnswer('{"status":"Success","capabilities":{"Attach":false,"fsGroup":"no"}}') ?? {};
  assert.deepEqual(capabilities, { attach: false });
  for (const none of ['', '[]', '{}', 'null', '{"status":"success"}', '{"status":"Success"} {"status":"Failure"}']) {
    assert.equal(parseAnswer(none), undefined, none);
  }
});

test('words of a program have no secrets in any form, are short and on one line', () => {
  const secrets = new Secrets({ a: 'top"secret', b: 'line one\nline two', c: '' });
  const words = `top"secret top\\"secret ${Buffer.from('top"secret').toString('base64')} line two\n\u001b[1m${'x'.repeat(500)}`;
  const shown = presentable(words, secrets);
  assert.match(shown, /^\*\*\* \*\*\* \*\*\* \*\*\* \[1mx+…$/);
  assert.equal(shown.length, 201);
});

test('words of a program have no rest of a secret that begins with another one, and none without its newline', () => {
  const secrets = new Secrets({ user: 'admin', password: 'admin123', token: 'topsecret\n' });
  const base64 = Buffer.from('topsecret').toString('base64');
  assert.equal(presentable(`admin:admin123 topsecret ${base64} admin`, secrets), '***:*** *** *** ***');
});

test('a mount is the noted one by its device and root; without a device by its source, too', () => {
  const noted = { device: { major: 8, minor: 1 }, fsType: 'ext4', root: '/a', source: '/dev/sda1' };
  assert.equal(showsMount(noted, { ...noted, source: 'other' }), 'whole');
  assert.equal(showsMount(noted, { ...noted, root: '/a/b' }), 'part');
  assert.equal(showsMount(noted, { ...noted, root: '/ab' }), undefined);
  assert.equal(showsMount(noted, { ...noted, device: { major: 8, minor: 2 } }), undefined);
  const bare = { ...noted, device: { major: 0, minor: 50 }, root: '/' };
  assert.equal(showsMount(bare, { ...bare, source: 'other' }), undefined);
  assert.equal(showsMount(bare, { ...bare, root: '/a' }), 'part');
});

test('a note is read as it was written, and nothing else is', () => {
  const note = {
    ...{ handle: 'pv-1', program: 'cifs', state: 'done', boot: 'b' },
    device: { major: 7, minor: 0, path: '/dev/loop0', sequence: '9' },
    mount: { device: { major: 7, minor: 0 }, fsType: 'ext4', root: '/', source: '/dev/loop0' },
  };
  const parsed = parseExecNote(JSON.stringify({ format: 1, ...note }));
  assert.ok('data' in parsed);
  assert.deepEqual(JSON.parse(serializeExecNote(parsed.data)), { format: 1, ...note });
  for (const none of [
    '',
    '{}',
    JSON.stringify({ format: 2, ...note }),
    JSON.stringify({ format: 1, ...note, handle: '' }),
  ]) {
    assert.ok('mistakes' in parseExecNote(none));
  }
});

test('one volume has a device from the moment in which it claims it, before its note is written', async () => {
  const directory = mkdtempSync('/run/holdfast-exec-');
  try {
    const notes = await ExecNotes.open(directory, queue, { info() {}, warn() {}, error() {} });
    const device = { major: 43, minor: 0, path: '/dev/nbd0', sequence: '9' };
    const [one, other] = [handle('one'), handle('other')];
    const begun = { handle: one, program: 'it', state: 'begun', boot: 'b' } as const;
    assert.equal(notes.claim(one, device), undefined);
    assert.equal(notes.claim(one, device), undefined);
    assert.equal(notes.claim(other, device), one);
    assert.equal(notes.claim(other, { ...device, sequence: '10' }), undefined);
    await notes.write({ ...begun, device });
    assert.equal(notes.claim(other, device), one);
    await notes.write(begun);
    assert.equal(notes.claim(other, device), undefined);
    await notes.remove(other);
    assert.equal(notes.claim(one, device), undefined);
    notes.release(one);
    assert.equal(notes.claim(other, device), undefined);
  } finally {
    rmSync(directory, { recursive: true });
  }
});

test('doctor says of each program whether it can be run', async () => {
  const directory = mkdtempSync('/run/holdfast-exec-');
  try {
    const path = `${directory}/it`;
    writeFileSync(path, '', { mode: 0o755 });
    const { program } = read('it', { path, protocol: 'json' });
    const check = async () => (await execNodeKind(new Map([['it', program]]), undefined).checkNode?.(queue)) ?? [];
    assert.deepEqual(
      (await check()).map(({ status }) => status),
      ['ok'],
    );
    chmodSync(path, 0o777);
    const [finding] = await check();
    assert.equal(finding?.status, 'fail');
    assert.match(JSON.stringify(finding), /others than root may write to/);
  } finally {
    rmSync(directory, { recursive: true });
  }
});
