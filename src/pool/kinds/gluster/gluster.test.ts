import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { accessModes } from '../../../volume/capability.ts';
import type { VolumeHandle } from '../../../volume/handle.ts';
import type { VolumeOnNode } from '../../node-side.ts';
import { type ClientHost, clientCommand } from './client.ts';
import { glusterNodeKind, openGlusterNode } from './kind.ts';
import { GlusterNotes, parseGlusterNote, serializeGlusterNote } from './notes.ts';

const queue = new DiskQueue('gluster', 1);
const log = { info() {}, warn() {}, error() {} };
const directory = mkdtempSync(join(tmpdir(), 'gluster-'));
after(() => rmSync(directory, { recursive: true }));

describe('the command of a client', () => {
  const start = {
    ...{ name: 'pv-x', directory: '/var/lib/kubelet/d', servers: ['a', 'fd00::1'], volume: 'gv0' },
    options: ['--acl'],
  };
  const client = [
    ...['/usr/sbin/glusterfs', '--process-name=fuse', '--volfile-server=a', '--volfile-server=fd00::1'],
    ...['--volfile-id=gv0', '--xlator-option=*-write-behind.flush-behind=off'],
    ...['--log-file=/var/log/glusterfs/holdfast-gv0.log', '--acl', '/var/lib/kubelet/d'],
  ];
  const host: ClientHost = {
    ...{ program: '/usr/sbin/glusterfs', before: ['nsenter', '--'], cgroups: { systemdRun: '/bin/systemd-run' } },
  };

  test('makes a scope of systemd, where systemd runs', () => {
    assert.deepEqual(clientCommand(host, start, '1'), [
      ...['nsenter', '--', '/bin/systemd-run', '--scope', '--quiet', '--collect'],
      ...['--unit=holdfast-gluster-pv-x-1', '--', ...client],
    ]);
  });

  test('goes into a cgroup of the driver elsewhere', () => {
    const [shell, option, script, zero, cgroup, ...rest] = clientCommand(
      { ...host, before: [], cgroups: { directory: '/sys/fs/cgroup/holdfast-gluster' } },
      start,
      '1',
    );
    assert.deepEqual([shell, option, zero], ['sh', '-c', 'sh']);
    assert.equal(cgroup, '/sys/fs/cgroup/holdfast-gluster/pv-x');
    assert.match(script ?? '', /cgroup\.procs" && shift && exec "\$@"$/);
    assert.deepEqual(rest, client);
  });
});

describe('the notes on volumes on GlusterFS', () => {
  const handle = 'orders' as VolumeHandle;
  const client = { pid: 7, startTicks: '70' };
  const [one, two] = [
    { major: 0, minor: 51 },
    { major: 0, minor: 52 },
  ];

  test('are read as they were written', () => {
    const note = { handle, boot: 'b', client, mounts: [one, two] };
    assert.deepEqual(parseGlusterNote(serializeGlusterNote(note)), { data: note });
    // A look at all clients adds the directory.
    const seen = { ...client, directory: '/mounts/one' };
    assert.deepEqual(parseGlusterNote(serializeGlusterNote({ ...note, client: seen })), { data: note });
    assert.ok('mistakes' in parseGlusterNote('{"format":2}'));
  });

  test('keep filesystems that pods may still have, until the kernel gives their numbers away', async () => {
    const notes = await GlusterNotes.open(join(directory, 'keep'), queue, log);
    await notes.begin(handle, []);
    assert.equal(notes.read(handle)?.client, undefined);
    await notes.complete(handle, client, one);
    await notes.complete(handle, client, two);
    assert.deepEqual(notes.read(handle)?.mounts, [two, one]);
    const other = 'other' as VolumeHandle;
    await notes.begin(other, []);
    await notes.complete(other, client, one);
    assert.deepEqual([notes.read(handle)?.mounts, notes.read(other)?.mounts], [[two], [one]]);
    const again = await GlusterNotes.open(join(directory, 'keep'), queue, log);
    assert.deepEqual(again.read(handle), notes.read(handle));
    await again.remove(handle);
    await again.remove(other);
    assert.deepEqual(readdirSync(join(directory, 'keep')), []);
  });

  test('say that a start has begun, until its client is known, and in the same boot', async () => {
    const path = join(directory, 'begin');
    const notes = await GlusterNotes.open(path, queue, log);
    assert.equal(notes.isBegun(handle), false);
    await notes.complete(handle, client, one);
    assert.equal(notes.isBegun(handle), false);
    await notes.begin(handle, [one]);
    assert.deepEqual([notes.isBegun(handle), notes.read(handle)?.mounts], [true, [one]]);
    const [name = ''] = readdirSync(path);
    writeFileSync(join(path, name), serializeGlusterNote({ handle, boot: 'before', client: undefined, mounts: [] }));
    assert.equal((await GlusterNotes.open(path, queue, log)).isBegun(handle), false);
  });

  test('name no process and no filesystem of before a reboot', async () => {
    const path = join(directory, 'boot');
    const notes = await GlusterNotes.open(path, queue, log);
    await notes.begin(handle, []);
    const [name = ''] = readdirSync(path);
    writeFileSync(join(path, name), serializeGlusterNote({ handle, boot: 'before', client, mounts: [one] }));
    const again = await GlusterNotes.open(path, queue, log);
    assert.deepEqual([again.read(handle)?.client, again.read(handle)?.mounts], [undefined, []]);
  });
});

describe('mounts of volumes on GlusterFS', () => {
  test('are known by the number of their filesystem, all of the volume or a directory in it', async () => {
    const mountsDirectory = join(directory, 'not-there-yet', 'mounts');
    const node = await openGlusterNode({ dataDirectory: join(directory, 'data'), mountsDirectory, queue, log });
    const kind = glusterNodeKind(node);
    const volume: VolumeOnNode = {
      ...{ handle: 'orders' as VolumeHandle, content: { type: 'directory' }, accessModes, provisioning: 'thin' },
      context: { servers: 'a', volume: 'gv0', subDir: 'x/y' },
    };
    const device = { major: 0, minor: 60 };
    const mount = { device, fsType: 'fuse.glusterfs', root: '/x/y', source: 'a:gv0' };
    const shows = (changes: Partial<typeof mount>) =>
      kind.shows(volume, { device: undefined, mount: { ...mount, ...changes } });
    assert.equal(shows({}), undefined);
    await node.notes.complete(volume.handle, { pid: 1, startTicks: '1' }, device);
    assert.equal(shows({}), 'whole');
    assert.equal(shows({ root: '/x/y/z' }), 'part');
    assert.equal(shows({ root: '/renamed' }), 'whole');
    assert.equal(shows({ fsType: 'fuse.sshfs' }), undefined);
    assert.equal(shows({ device: { major: 0, minor: 61 } }), undefined);
    assert.equal(kind.shows(volume, { device, mount: undefined }), undefined);
    assert.ok(kind.isOwnMount?.(join(node.mountsDirectory, 'pv-x', 'gluster')));
    assert.ok(!kind.isOwnMount?.(`${node.mountsDirectory}-other`));
    assert.deepEqual([kind.serverOf(volume), kind.fateOf?.(volume)], ['a', 'orders']);
  });
});
