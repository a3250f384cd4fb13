/**
 * Serves a FUSE mount in the place of glusterfs. Words: a mode, `--process-name=fuse`, the directory.
 *
 * - answers: as a healthy client does, for statistics and an empty directory
 * - slow: answers statistics after 3 s
 * - leaves: unmounts itself when it is asked for statistics, and answers
 * - silent: reads all requests and answers none; another process holds its connection for 30 s
 */
import { spawn } from 'node:child_process';
import { openSync, readSync, writeFileSync, writeSync } from 'node:fs';
import { isErrno } from '../../src/kernel/call/errno.ts';
import { invokeNow, libcCall } from '../../src/kernel/call/libc.ts';

const MNT_DETACH = 2;
const [init, getattr, statfs, open, release] = [26, 3, 17, 27, 29];
const [forget, interrupt] = [2, 36];
const mountCall = libcCall<readonly [string, string, string, number, string]>(
  'int mount(const char *source, const char *target, const char *type, ulong flags, const char *data)',
);
const umountCall = libcCall<readonly [string, number]>('int umount2(const char *target, int flags)');

const mode = process.argv[2] ?? '';
const directory = process.argv.at(-1) ?? '';
// The driver looks at the name first.
writeFileSync('/proc/self/comm', 'glusterfs');
const connection = openSync('/dev/fuse', 'r+');
const data = `fd=${connection},rootmode=40000,user_id=0,group_id=0`;
invokeNow(mountCall, ['a:gv0', directory, 'fuse.glusterfs', 0, data], directory);
const helper =
  mode === 'silent' ? spawn('sleep', ['30'], { stdio: ['ignore', 'ignore', 'ignore', connection] }) : undefined;
writeSync(1, `${helper?.pid ?? 0}\n`);

const request = Buffer.alloc(1 << 18);
for (;;) {
  try {
    readSync(connection, request);
  } catch (error) {
    if (isErrno(error, 'EINTR', 'ENOENT')) continue;
    // It is unmounted, or aborted.
    process.exit(0);
  }
  answer(request.readUInt32LE(4), request.readBigUInt64LE(8));
}

function answer(operation: number, unique: bigint): void {
  if (operation === forget || operation === interrupt) return;
  if (mode === 'silent' && operation !== init) return;
  if (operation === statfs && mode === 'slow') Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3_000);
  if (operation === statfs && mode === 'leaves') invokeNow(umountCall, [directory, MNT_DETACH], directory);
  const body = bodyOf(operation);
  const head = Buffer.alloc(16);
  head.writeUInt32LE(16 + (body?.length ?? 0), 0);
  head.writeInt32LE(body === undefined ? -38 : 0, 4);
  head.writeBigUInt64LE(unique, 8);
  try {
    writeSync(connection, Buffer.concat([head, body ?? Buffer.alloc(0)]));
  } catch (error) {
    // The caller was killed.
    if (!isErrno(error, 'ENOENT')) throw error;
  }
}

/** The structures of linux/fuse.h; undefined: ENOSYS. */
function bodyOf(operation: number): Buffer | undefined {
  if (operation === init) {
    const body = Buffer.alloc(64);
    body.writeUInt32LE(7, 0);
    body.writeUInt32LE(31, 4);
    body.writeUInt32LE(65_536, 8);
    body.writeUInt16LE(12, 16);
    body.writeUInt16LE(10, 18);
    body.writeUInt32LE(65_536, 20);
    body.writeUInt32LE(1, 24);
    return body;
  }
  if (operation === statfs) return Buffer.alloc(80);
  if (operation === open) return Buffer.alloc(16);
  if (operation === release) return Buffer.alloc(0);
  if (operation !== getattr) return undefined;
  const body = Buffer.alloc(16 + 88);
  body.writeBigUInt64LE(1n, 16);
  body.writeUInt32LE(0o40755, 16 + 60);
  body.writeUInt32LE(2, 16 + 64);
  return body;
}
