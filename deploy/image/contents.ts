/**
 * What the image holds of Debian: the programs that the driver runs (src/command), and those with which a person mends
 * a pool or a volume from inside the container. The libraries they load come along; nothing else does.
 */
export const programs: Readonly<Record<string, readonly string[]>> = {
  'btrfs-progs': ['btrfs', 'mkfs.btrfs'],
  // For git's confined shell, for xfs_admin (a shell script), for clones of directories, for programs of the user's and mounts that may
  // hang, and for `holdfast` itself, which
  // starts with env.
  coreutils: ['cat', 'chown', 'cp', 'env', 'expr', 'install', 'ls', 'stat', 'timeout', 'true'],
  // For encrypted volumes.
  'cryptsetup-bin': ['cryptsetup'],
  dash: ['sh'],
  // For a person who mends a pool in a volume group.
  dmsetup: ['dmsetup'],
  e2fsprogs: ['dumpe2fs', 'e2fsck', 'mkfs.ext4', 'resize2fs', 'tune2fs'],
  git: ['git', '/usr/lib/git-core/git-remote-https'],
  // For pools in volume groups on nodes that have no LVM of their own.
  lvm2: ['lvm'],
  mount: ['losetup', 'mount', 'umount'],
  // LVM runs thin_check when it activates a thin pool, by this path, and the others when it repairs one.
  'thin-provisioning-tools': ['thin_check', 'thin_dump', 'thin_repair', 'thin_restore'],
  'util-linux': ['blkid', 'dmesg', 'flock', 'nsenter', 'setpriv', 'unshare', 'wipefs'],
  xfsprogs: ['mkfs.xfs', 'xfs_admin', 'xfs_db', 'xfs_growfs', 'xfs_repair'],
};

/** Libraries that are loaded by name while the driver runs, so that no program's header tells of them. */
export const libraries: readonly string[] = ['libblkid.so.1'];

/** Debian's packages of all that, and of what Node and koffi are linked with. apt adds the packages that these need. */
export const packages: readonly string[] = [
  ...Object.keys(programs),
  ...['ca-certificates', 'libatomic1', 'libblkid1', 'libc6', 'libgcc-s1', 'libstdc++6'],
];

/** Small files that Debian's installation scripts would have made; they are not run. */
export const plainFiles: Readonly<Record<string, string>> = {
  '/etc/passwd': 'root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n',
  '/etc/group': 'root:x:0:\nnogroup:x:65534:\n',
  '/etc/nsswitch.conf': 'passwd: files\ngroup: files\nhosts: files dns\n',
  // Without its directory LVM does nothing: it would make it, and the root is read-only here. So no old texts are kept in it.
  // The rest is what the driver says itself, for who runs LVM by hand in here: nobody would answer.
  '/etc/lvm/lvm.conf':
    'backup { backup = 0 archive = 0 }\nactivation { udev_sync = 0 udev_rules = 0 monitoring = 0 }\n',
};

/** Empty directories: what a container runtime and the driver's mounts stand on. */
export const directories: readonly string[] = ['/dev', '/etc', '/proc', '/run', '/sys', '/tmp', '/var/lib', '/var/tmp'];
