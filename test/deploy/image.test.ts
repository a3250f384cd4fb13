import assert from 'node:assert/strict';
import { existsSync, lstatSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { tools } from '../../src/command/tools.ts';
import { version } from '../../src/version.ts';
import { runToEnd } from '../cluster/harness/command.ts';

const projectRoot = fileURLToPath(new URL('../..', import.meta.url));

const described = z.object({ digest: z.string() });
const index = z.object({ manifests: z.tuple([described]) });
const manifest = z.object({ config: described, layers: z.array(described) });
const imageConfig = z.object({
  config: z.object({
    Entrypoint: z.array(z.string()),
    Cmd: z.array(z.string()),
    Labels: z.record(z.string(), z.string()),
  }),
});

describe('Container image', { timeout: 600_000 }, () => {
  const work = mkdtempSync('/var/tmp/holdfast-image-');
  const root = join(work, 'root');
  let config: z.infer<typeof imageConfig>['config'];

  before(async () => {
    const archive = join(work, 'image.tar');
    await runToEnd(process.execPath, [join(projectRoot, 'deploy/image/build.ts'), '--output', archive]);
    const blobs = join(work, 'oci');
    mkdirSync(blobs);
    mkdirSync(root);
    await runToEnd('tar', ['-xf', archive, '-C', blobs]);
    const blob = (digest: string) => join(blobs, 'blobs', digest.replace(':', '/'));
    const json = (path: string): unknown => JSON.parse(readFileSync(path, 'utf8'));
    const parts = manifest.parse(json(blob(index.parse(json(join(blobs, 'index.json'))).manifests[0].digest)));
    ({ config } = imageConfig.parse(json(blob(parts.config.digest))));
    for (const { digest } of parts.layers) await runToEnd('tar', ['-xzf', blob(digest), '-C', root]);
  });
  after(() => rmSync(work, { recursive: true, force: true }));

  /** Runs a program in it, as a pod has it: root filesystem read-only, /dev of the node, /tmp to write in. */
  const inside = (command: readonly string[]) => {
    const script = [
      'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && mount -t proc proc "$0/proc"',
      'mount --rbind /dev "$0/dev" && mount --rbind /sys "$0/sys" && mount -t tmpfs tmpfs "$0/tmp"',
      'mount -t tmpfs tmpfs "$0/var/lib" && mkdir "$0/var/lib/kubelet"',
      'exec chroot "$0" "$@"',
    ].join(' && ');
    return runToEnd('unshare', ['--mount', '--propagation', 'private', 'sh', '-c', script, root, ...command], {
      env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' },
      timeoutMs: 60_000,
    });
  };

  test('starts the driver, and says what it is', async () => {
    const [program = '', ...parameters] = config.Entrypoint;
    assert.equal((await inside([program, ...parameters, '--version'])).trim(), version);
    assert.deepEqual(config.Cmd, ['serve']);
    assert.equal(config.Labels['org.opencontainers.image.version'], version);
    assert.equal((await inside(['holdfast', '--version'])).trim(), version);
  });

  test('has all that the driver needs, by what it says itself', async () => {
    const found: unknown = JSON.parse(await inside(['holdfast', 'doctor', '--json']).catch(outputOf));
    const findings = JSON.stringify(found);
    for (const { program } of tools) assert.match(findings, new RegExp(`${program}[^}]*`), findings);
    assert.doesNotMatch(findings, /not found in|libblkid[^}]*fail/);
  });

  const programs: [string, string[]][] = [
    ['git', ['git', '--version']],
    ['git over https', ['git', 'remote-https', 'x']],
    [
      'the confined shell of git',
      ['setpriv', 'unshare', '--mount', 'sh', '-c', 'mount --version && install --version'],
    ],
    ['xfs_admin, a script', ['xfs_admin', '-V']],
    ['xfs_repair', ['xfs_repair', '-V']],
    ['btrfs', ['btrfs', '--version']],
    ['chown', ['chown', '--version']],
  ];
  for (const [what, command] of programs) {
    test(`has ${what}`, async () => {
      const words = await inside(command).catch((error: unknown) => String(error));
      assert.doesNotMatch(words, /not found|No such file|cannot open shared object|is not a git command/);
    });
  }

  for (const [program, ...check] of [
    ['mkfs.ext4', 'e2fsck', '-fn'],
    ['mkfs.xfs', 'xfs_repair', '-n'],
    ['mkfs.btrfs', 'btrfs', 'check'],
  ]) {
    test(`${program} works on a read-only root`, async () => {
      const make = 'node -e \'fs.writeFileSync("/tmp/disk", ""); fs.truncateSync("/tmp/disk", 400 << 20)\'';
      await inside(['sh', '-ec', `${make}; ${program} -q /tmp/disk; ${check.join(' ')} /tmp/disk`]);
    });
  }

  test('has no set-user-ID program, no package manager, and a licence of each package', () => {
    for (const directory of ['usr/bin', 'usr/sbin']) {
      for (const name of readdirSync(join(root, directory))) {
        assert.equal(lstatSync(join(root, directory, name)).mode & 0o6000, 0, name);
      }
    }
    for (const name of ['usr/bin/apt-get', 'usr/bin/dpkg', 'usr/bin/perl'])
      assert.equal(existsSync(join(root, name)), false);
    const packages = readdirSync(join(root, 'var/lib/dpkg/status.d'));
    assert.ok(packages.includes('xfsprogs') && packages.includes('libc6') && packages.includes('ca-certificates'));
    for (const name of packages) assert.ok(existsSync(join(root, 'usr/share/doc', name, 'copyright')), name);
    assert.ok(existsSync(join(root, 'usr/share/doc/node/copyright')));
  });
});

function outputOf(error: unknown): string {
  if (error instanceof Error && 'stdout' in error && typeof error.stdout === 'string') return error.stdout;
  throw error;
}
