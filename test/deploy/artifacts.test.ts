import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { accessSync, constants, existsSync, lstatSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { z } from 'zod';
import { ownArchitecture } from '../../deploy/image/architecture.ts';
import { installPrograms } from '../../deploy/image/program.ts';
import { imageRepository } from '../../scripts/published.ts';
import { versionedLines, versionPattern } from '../../scripts/set-version.ts';
import { tools } from '../../src/command/tools.ts';
import { version } from '../../src/version.ts';
import { runToEnd } from '../cluster/harness/command.ts';
import { buildPrograms } from '../cluster/harness/programs.ts';
import { type UnpackedImage, unpackImage } from '../support/unpack-image.ts';
import { Helm } from './helm.ts';
import { objectsOf } from './objects.ts';

const projectRoot = fileURLToPath(new URL('../..', import.meta.url));

const chartRepository = z.object({
  apiVersion: z.literal('v1'),
  entries: z.object({ holdfast: z.array(z.object({ digest: z.string(), urls: z.array(z.string()) })) }),
});
const bill = z.object({ components: z.array(z.object({ purl: z.string() })) });
const work = mkdtempSync('/var/tmp/holdfast-release-');
const release = join(work, 'release');
const repository = 'registry.example.org/storage/holdfast';
const releaseFile = (name: string) => join(release, name);

before(async () => {
  const options = ['--output', release, '--repository', repository];
  await runToEnd(process.execPath, [join(projectRoot, 'deploy/release/build.ts'), ...options], { timeoutMs: 600_000 });
});
after(() => rmSync(work, { recursive: true, force: true }));

/** Unpacks the image of one architecture. */
const unpackedImage = (architecture: string) =>
  unpackImage(releaseFile(`holdfast-${version}-image.tar`), join(work, architecture), architecture);

describe('What a release publishes', { timeout: 900_000 }, () => {
  test('has checksums of all its files', async () => {
    await runToEnd('sha256sum', ['--check', '--strict', 'SHA256SUMS'], { cwd: release });
    const listed = readFileSync(releaseFile('SHA256SUMS'), 'utf8').match(/\S+$/gm);
    assert.deepEqual(
      listed?.sort(),
      readdirSync(release)
        .filter((name) => name !== 'SHA256SUMS')
        .sort(),
    );
  });

  test('the plugin of kubectl is in it', () => {
    const [source, copy] = [join(projectRoot, 'deploy/kubectl/kubectl-holdfast'), releaseFile('kubectl-holdfast')];
    assert.deepEqual(readFileSync(copy), readFileSync(source));
    accessSync(copy, constants.X_OK);
  });

  test('install.yaml has the objects of kubectl apply -k deploy, with the published image', async () => {
    const kubectl = join(await buildPrograms(['kubectl']), 'kubectl');
    const expected = await runToEnd(kubectl, ['kustomize', join(projectRoot, 'deploy')]);
    const text = readFileSync(releaseFile('install.yaml'), 'utf8');
    assert.ok(text.includes(`image: ${repository}:${version}\n`));
    assert.deepEqual(objectsOf(text.replaceAll(`${repository}:`, `${imageRepository()}:`)), objectsOf(expected));
  });

  test('the chart is one that helm takes, with the published image', async () => {
    const helm = await Helm.build();
    const text = await helm.run([
      'template',
      'holdfast',
      releaseFile(`holdfast-${version}.tgz`),
      '--kube-version',
      '1.36.3',
    ]);
    assert.ok(text.includes(`image: ${repository}:${version}\n`));
    // What `helm repo add` reads.
    const index = chartRepository.parse(parse(readFileSync(releaseFile('index.yaml'), 'utf8')));
    const [entry] = index.entries.holdfast;
    const archive = readFileSync(releaseFile(`holdfast-${version}.tgz`));
    assert.equal(entry?.digest, createHash('sha256').update(archive).digest('hex'));
    assert.ok(entry?.urls[0]?.endsWith(`holdfast-${version}.tgz`));
    const described = await helm.run(['show', 'chart', releaseFile(`holdfast-${version}.tgz`)]);
    assert.match(described, new RegExp(`^version: ${version}$`, 'm'));
  });

  for (const architecture of ['amd64', 'arm64']) {
    test(`the bill of materials for ${architecture} has what is in the image`, () => {
      const text = readFileSync(releaseFile(`holdfast-${version}-${architecture}.cdx.json`), 'utf8');
      const { components } = bill.parse(JSON.parse(text));
      const purls = components.map(({ purl }) => purl);
      assert.equal(new Set(purls).size, purls.length);
      for (const part of [
        'pkg:npm/koffi@',
        'pkg:npm/node-linux-',
        `pkg:deb/debian/xfsprogs@`,
        'pkg:npm/%40grpc/grpc-js@',
      ]) {
        assert.ok(
          purls.some((purl) => purl.startsWith(part)),
          part,
        );
      }
      assert.ok(purls.some((purl) => purl.includes(`arch=${architecture}`)));
      assert.ok(!purls.some((purl) => purl.startsWith('pkg:npm/typescript@')), 'what only builds it is not in it');
    });
  }

  test('the notes are those of the changelog', () => {
    assert.match(readFileSync(releaseFile('NOTES.md'), 'utf8'), /^# Holdfast \S+.*^### Added$/ms);
  });

  test('the image for arm64 starts', async () => {
    installPrograms({ 'qemu-aarch64-static': 'qemu-user-static' });
    const { root } = await unpackedImage('arm64');
    const run = (...command: string[]) => runToEnd('qemu-aarch64-static', ['-L', root, ...command]);
    const program = join(root, 'usr/lib/holdfast/holdfast.mjs');
    assert.equal((await run(join(root, 'usr/bin/node'), program, '--version')).trim(), version);
    assert.match(await run(join(root, 'usr/sbin/mkfs.xfs'), '-V'), /^mkfs\.xfs version/);
    assert.match(await run(join(root, 'usr/sbin/lvm'), 'version').catch(outputOf), /LVM version: +2\.03\./);
  });

  test('the version is the same wherever it is named', () => {
    for (const [file, before] of versionedLines) {
      const found = [...readFileSync(join(projectRoot, file), 'utf8').matchAll(versionPattern(before))];
      assert.deepEqual(
        found.map((match) => match[2]),
        [version],
        `${file}: ${before}`,
      );
    }
  });
});

describe('Container image', { timeout: 600_000 }, () => {
  const architecture = ownArchitecture();
  const root = join(work, architecture);
  let config: UnpackedImage['config'];

  before(async () => {
    ({ config } = await unpackedImage(architecture));
  });

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
    ['dmsetup', ['dmsetup', '--version']],
  ];
  for (const [what, command] of programs) {
    test(`has ${what}`, async () => {
      const words = await inside(command).catch((error: unknown) => String(error));
      assert.doesNotMatch(words, /not found|No such file|cannot open shared object|is not a git command/);
    });
  }

  test('has LVM, and what it runs for thin pools where it looks for it', async () => {
    const words = await inside(['lvm', 'version']).catch(outputOf);
    assert.match(words, /LVM version: +2\.03\.[0-9]+/);
    const paths = [...words.matchAll(/--with-thin-(?:check|dump|repair|restore)=(\S+)/g)].map(([, path = '']) => path);
    assert.equal(paths.length, 3, words);
    for (const path of paths) assert.match(await inside([path, '-V']), /^[0-9]+\.[0-9]+\.[0-9]+$/m, path);
  });

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
