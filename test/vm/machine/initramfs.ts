import { execFileSync } from 'node:child_process';
import { chmodSync, copyFileSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildSync } from 'esbuild';

/** Enough to see the host's files; all other modules are loaded from there. */
const modules = ['virtio_pci', 'virtio_blk', 'virtio_console', '9p', '9pnet_virtio', 'overlay'];

/** Makes the small filesystem in memory that the kernel starts with. @returns its path */
export function makeInitramfs(kernel: string, directory: string): string {
  const root = join(directory, 'initramfs');
  for (const name of ['bin', 'dev', 'host', 'layer', 'modules', 'proc', 'root', 'sys']) {
    mkdirSync(join(root, name), { recursive: true });
  }
  copyFileSync('/bin/busybox', join(root, 'bin', 'busybox'));
  copyFileSync(fileURLToPath(new URL('init.sh', import.meta.url)), join(root, 'init'));
  chmodSync(join(root, 'init'), 0o755);
  const order = moduleFiles(kernel);
  for (const file of order) copyFileSync(file, join(root, 'modules', basename(file)));
  writeFileSync(join(root, 'modules', 'order'), order.map((file) => `/modules/${basename(file)}\n`).join(''));
  const agent = buildAgent(directory);
  writeFileSync(join(root, 'settings'), `KERNEL='${kernel}'\nNODE='${process.execPath}'\nAGENT='${agent}'\n`);
  const archive = join(directory, 'initramfs.cpio');
  execFileSync(
    '/bin/busybox',
    ['sh', '-c', 'busybox find . | busybox cpio -o -H newc >"$1" 2>/dev/null', 'sh', archive],
    {
      cwd: root,
    },
  );
  return archive;
}

/** One file of JavaScript: to take the types away would take Node a second there. */
function buildAgent(directory: string): string {
  const outfile = join(directory, 'agent.mjs');
  const entry = fileURLToPath(new URL('agent.ts', import.meta.url));
  buildSync({ entryPoints: [entry], outfile, bundle: true, platform: 'node', format: 'esm', logLevel: 'warning' });
  return outfile;
}

/** In the order in which they can be loaded. */
function moduleFiles(kernel: string): string[] {
  const [release = ''] = readdirSync(join(kernel, 'lib', 'modules'));
  const options = ['--dirname', kernel, '--set-version', release, '--show-depends'];
  const lines = modules.flatMap((name) =>
    execFileSync('modprobe', [...options, name], { encoding: 'utf8' })
      .trim()
      .split('\n'),
  );
  const files = lines.filter((line) => line.startsWith('insmod ')).map((line) => line.slice('insmod '.length).trim());
  return [...new Set(files)];
}
