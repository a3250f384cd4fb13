import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { DiskQueue } from '../kernel/call/disk-queue.ts';
import type { AccessMode, VolumeCapability } from '../volume/capability.ts';
import type { FilesystemType } from '../volume/filesystem.ts';
import { volumeIdFor } from '../volume/id.ts';
import { Notes } from './notes.ts';

const queue = new DiskQueue('notes', 2);
const id = volumeIdFor('node', 'pool', 'volume');
const note = { path: '/staging/with "quotes"\n🙂', digest: 'd' };
const directory = mkdtempSync('/var/tmp/holdfast-notes-');
after(() => rmSync(directory, { recursive: true }));

let directories = 0;
const newDirectory = () => join(directory, `${directories++}`, 'node');

describe('notes', () => {
  test('are there after a restart, until they are forgotten', async () => {
    const path = newDirectory();
    const first = await Notes.open({ directory: path }, queue);
    assert.equal(first.read(id), undefined);
    await first.write(id, { path: '/old', digest: 'old' });
    await first.write(id, note);
    const second = await Notes.open({ directory: path }, queue);
    assert.deepEqual(second.read(id), note);
    await second.forget(id);
    await second.forget(id);
    assert.equal(second.read(id), undefined);
    assert.deepEqual(readdirSync(path), []);
  });

  test('of an earlier boot, damaged, unfinished or foreign ones are removed', async () => {
    const path = newDirectory();
    await (await Notes.open({ directory: path }, queue)).write(id, note);
    const text = readFileSync(join(path, `${id}.json`), 'utf8');
    const others = [
      [`${id}.json`, text.replace(/"bootId":"[^"]*"/, '"bootId":"x"')],
      [`${volumeIdFor('node', 'pool', 'half')}.json`, text.slice(0, 20)],
      [`${volumeIdFor('node', 'pool', 'shape')}.json`, '{"bootId":"x"}'],
      [`${id}.json.draft`, text],
      ['something.json', text],
    ] as const;
    for (const [name, content] of others) writeFileSync(join(path, name), content);
    const notes = await Notes.open({ directory: path }, queue);
    assert.equal(notes.read(id), undefined);
    assert.deepEqual(readdirSync(path), []);
  });
});

describe('notes in memory', () => {
  const memory = join(directory, 'memory');
  before(() => {
    mkdirSync(memory);
    execFileSync('mount', ['-t', 'tmpfs', 'none', memory]);
  });
  after(() => execFileSync('umount', [memory]));

  test('are written on this thread, and are there after a restart', async () => {
    const place = { directory: join(memory, 'node') };
    const ended = new DiskQueue('ended', 1);
    const first = await Notes.open(place, ended);
    // Nothing waits for a thread any more.
    ended.close(new Error('it is closed'));
    await first.write(id, note);
    assert.deepEqual((await Notes.open(place, queue)).read(id), note);
    await first.forget(id);
    assert.deepEqual(readdirSync(place.directory), []);
  });

  test('those of a driver that had them elsewhere are taken over, as often as it comes back', async () => {
    const place = { directory: join(memory, 'later'), earlier: newDirectory() };
    for (const path of ['/first', '/second']) {
      await (await Notes.open({ directory: place.earlier }, queue)).write(id, { path, digest: 'd' });
      assert.deepEqual((await Notes.open(place, queue)).read(id), { path, digest: 'd' });
      assert.deepEqual(readdirSync(place.earlier), []);
      assert.deepEqual((await Notes.open(place, queue)).read(id), { path, digest: 'd' });
    }
    const missing = { directory: join(memory, 'new'), earlier: join(memory, 'nothing') };
    assert.equal((await Notes.open(missing, queue)).read(id), undefined);
  });
});

test('a digest tells capabilities apart, and nothing about them (X02)', async () => {
  const notes = await Notes.open({ directory: newDirectory() }, queue);
  const digest = (mode: AccessMode, mountFlags: string[], fsType?: FilesystemType) => {
    const capability: VolumeCapability = { access: { type: 'mount', fsType, mountFlags }, mode };
    return notes.digest(capability, { type: 'mount', fsType: 'ext4' });
  };
  const usual = digest('SINGLE_NODE_WRITER', ['secret-flag', 'noatime']);
  assert.equal(usual, digest('SINGLE_NODE_WRITER', ['secret-flag,noatime'], 'ext4'));
  assert.notEqual(usual, digest('SINGLE_NODE_MULTI_WRITER', ['secret-flag', 'noatime']));
  assert.notEqual(usual, digest('SINGLE_NODE_WRITER', ['secret-flag']));
  assert.notEqual(digest('SINGLE_NODE_WRITER', ['ro', 'rw']), digest('SINGLE_NODE_WRITER', ['rw', 'ro']));
  assert.match(usual, /^[A-Za-z0-9_-]{43}$/);
  assert.notEqual(
    notes.digest({ access: { type: 'block' }, mode: 'SINGLE_NODE_WRITER' }, { type: 'block' }),
    digest('SINGLE_NODE_WRITER', []),
  );
});
