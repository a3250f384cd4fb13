import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';

/** Entries of all kinds that programs make in a directory, by another program than ours. */
const maker = `
import os, socket, sys, time
os.umask(0)
os.chdir(sys.argv[1])
depth = int(sys.argv[2])
def write(name, data, at=0):
    fd = os.open(name, os.O_WRONLY | os.O_CREAT, 0o640)
    os.pwrite(fd, data, at)
    os.close(fd)
write(b'plain', b'some text\\n')
write(b'empty', b'')
write(b'n\\xff\\xfeo utf-8 \\n\\t*', b'x')
write(b'y' * 255, b'a long name')
write(b'large', os.urandom(5 * 1024 * 1024 + 123))
write(b'sparse', b'begin')
write(b'sparse', os.urandom(4096), 64 << 20)
os.truncate(b'sparse', (1 << 40) + 17)
write(b'zeros', bytes(200000))
write(b'setuid', b'#!'); os.chown(b'setuid', 1234, 5678); os.chmod(b'setuid', 0o6755)
write(b'nobody can', b'secret'); os.chown(b'nobody can', 99, 4294967294); os.chmod(b'nobody can', 0)
write(b'capable', b'ELF')
os.setxattr(b'capable', 'security.capability', bytes.fromhex('0100000200040000000000000000000000000000'))
os.setxattr(b'plain', 'user.comment', b'a \\0 value')
os.setxattr(b'plain', 'user.empty', b'')
os.setxattr(b'plain', 'trusted.hidden', b'z' * 2000)
acl = bytes.fromhex('0200000001000600ffffffff02000700e803000004000400ffffffff10000700ffffffff20000000ffffffff')
os.setxattr(b'plain', 'system.posix_acl_access', acl)
os.mkdir(b'dir'); os.mkdir(b'dir/empty'); os.mkdir(b'dir/sticky'); os.chmod(b'dir/sticky', 0o3777)
os.setxattr(b'dir', 'system.posix_acl_default', acl)
os.setxattr(b'dir', 'user.of a directory', b'1')
os.chown(b'dir', 7, 8)
write(b'dir/inherits', b'1')
os.link(b'plain', b'dir/another name of plain'); os.link(b'plain', b'also plain')
os.symlink(b'/etc/passwd', b'absolute'); os.symlink(b'../../../../etc/passwd', b'dir/upwards')
os.symlink(b'dir', b'to a directory'); os.symlink(b't' * 1000, b'long target'); os.symlink(b'nowhere\\xff', b'dangling')
os.lchown(b'dangling', 3, 4); os.link(b'dangling', b'dir/dangling too', follow_symlinks=False)
os.setxattr(b'dangling', 'trusted.of a symlink', b'2', follow_symlinks=False)
os.mkfifo(b'fifo', 0o620); os.link(b'fifo', b'dir/fifo too')
os.mknod(b'null', 0o20666, os.makedev(1, 3)); os.mknod(b'disk', 0o60600, os.makedev(259, 200000))
os.setxattr(b'null', 'trusted.of a device', b'3')
s = socket.socket(socket.AF_UNIX); s.bind('socket'); s.close()
os.mkdir(b'many')
for i in range(700): write(b'many/a file of many with a long name %d' % i, b'%d' % i if i % 3 == 0 else b'')
os.mkdir(b'deep')
top = os.getcwd()
os.chdir(b'deep')
for i in range(depth):
    os.mkdir(b'down'); write(b'before', b'%d' % i); os.chdir(b'down')
write(b'deepest', b'here')
for i in range(depth):
    os.chdir(b'..'); write(b'the rest', b'%d' % i)
os.chdir(top)
count = 0
def times(name):
    global count
    count += 1
    # Later than the change itself, so that reading it changes nothing.
    os.utime(name, ns=((int(time.time()) + 3600) * 10**9 + 123456789 + count, (count * 86400 - 10**8) * 10**9 + count), follow_symlinks=False)
def walk():
    for name in os.listdir(b'.'):
        if os.path.isdir(name) and not os.path.islink(name):
            os.chdir(name); walk(); os.chdir(b'..')
        times(name)
sys.setrecursionlimit(100000)
walk()
os.chown(b'.', 1000, 2000); os.chmod(b'.', 0o2775); os.setxattr(b'.', 'user.root', b'r')
times(b'.')
`;

/** A line for each entry, with all that a copy must have. Changes nothing, not even a time. */
const describer = `
import hashlib, os, stat, sys
sys.setrecursionlimit(100000)
os.chdir(sys.argv[1])
seen = {}
def data(name, size):
    fd = os.open(name, os.O_RDONLY | os.O_NOATIME)
    digest = hashlib.sha256()
    ranges = []
    at = 0
    while at < size:
        try: start = os.lseek(fd, at, os.SEEK_DATA)
        except OSError: break
        end = os.lseek(fd, start, os.SEEK_HOLE)
        ranges.append((start, end))
        while start < end:
            part = os.pread(fd, min(1 << 20, end - start), start)
            digest.update(b'%d:' % start + part)
            start += len(part)
        at = end
    os.close(fd)
    return ranges, digest.hexdigest()
def one(name, path):
    s = os.lstat(name)
    facts = [oct(s.st_mode), s.st_uid, s.st_gid, s.st_mtime_ns]
    if sys.argv[2] == 'read': facts.append(s.st_atime_ns)
    kind = stat.S_IFMT(s.st_mode)
    facts.append([(a, os.getxattr(name, a, follow_symlinks=False)) for a in sorted(os.listxattr(name, follow_symlinks=False)) if not a.startswith('trusted.SGI_')])
    if kind != stat.S_IFDIR: facts += [s.st_nlink, seen.setdefault(s.st_ino, path)]
    if kind == stat.S_IFREG: facts += [s.st_size, *data(name, s.st_size)]
    if kind == stat.S_IFLNK: facts.append(os.readlink(name))
    if kind in (stat.S_IFCHR, stat.S_IFBLK): facts.append(s.st_rdev)
    print(repr(path), *facts)
    return kind == stat.S_IFDIR
def walk(path):
    here = os.open(b'.', os.O_RDONLY | os.O_DIRECTORY | os.O_NOATIME)
    names = sorted(os.fsencode(name) for name in os.listdir(here))
    os.close(here)
    for name in names:
        below = path + b'/' + name
        if one(name, below):
            os.chdir(name); walk(below if len(below) < 500 else b'...'); os.chdir(b'..')
one(b'.', b'.')
walk(b'.')
`;

/** @param depth of directories in each other */
export function makeWildTree(path: string, depth = 450): void {
  execFileSync('python3', ['-c', maker, path, String(depth)]);
}

/** @param times unread: without the times of the last access, which the driver's own look at the sizes of trees may change */
export function describedTree(path: string, times: 'read' | 'unread' = 'read'): string[] {
  const options = { encoding: 'utf8', maxBuffer: 256 << 20 } as const;
  return execFileSync('python3', ['-c', describer, path, times], options).trimEnd().split('\n');
}

/** @param expected the lines of `describedTree` */
export function requireTree(path: string, expected: readonly string[]): void {
  const found = describedTree(path);
  const at = found.findIndex((line, index) => line !== expected[index]);
  assert.deepEqual([found[at], found.length], [expected[at], expected.length]);
}
