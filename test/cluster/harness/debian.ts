import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runToEnd } from './command.ts';
import { fillWithBusybox, makeImage } from './images.ts';

/** The image `debian:12` on Docker Hub, as far as a shell with GNU's programs for files needs it; the archive, in `directory`. */
export async function makeDebianImage(directory: string, name: string): Promise<string> {
  return await makeImage(directory, { name }, async (root) => {
    await unpack(root, ['coreutils', 'diffutils', 'findutils', 'dash']);
    makeTemporary(root, 'tmp');
  });
}

/** What the image on Docker Hub does that our example counts on: it makes a database once, and then serves it. */
const postgresqlEntrypoint = `#!/bin/sh
set -e
PATH=$(echo /usr/lib/postgresql/*/bin):$PATH
umask 077
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  printf '%s\\n' "$POSTGRES_PASSWORD" > /tmp/password
  initdb --username=postgres --pwfile=/tmp/password --auth-host=scram-sha-256
  rm /tmp/password
fi
exec postgres -c listen_addresses=127.0.0.1
`;

/** Debian's PostgreSQL, for those who name the image on Docker Hub. */
export async function makePostgresqlImage(directory: string, name: string): Promise<string> {
  const plan = { name, entrypoint: ['/entrypoint'], env: ['PATH=/usr/local/bin:/usr/bin:/bin'] };
  return await makeImage(directory, plan, async (root) => {
    await fillWithBusybox(root);
    await unpack(root, ['postgresql']);
    writeProgram(root, 'entrypoint', postgresqlEntrypoint);
    for (const program of ['pg_isready', 'psql']) {
      writeProgram(root, `usr/local/bin/${program}`, `#!/bin/sh\nexec /usr/lib/postgresql/*/bin/${program} "$@"\n`);
    }
    // initdb asks who it is.
    writeFileSync(join(root, 'etc/passwd'), 'postgres:x:999:999::/:/bin/sh\n');
    for (const path of ['tmp', 'var/run/postgresql']) makeTemporary(root, path);
  });
}

/** Debian's restic, for those who name the image on Docker Hub. @param trust writes the certificates that it trusts to a path */
export async function makeResticImage(directory: string, name: string, trust: (path: string) => void): Promise<string> {
  return await makeImage(directory, { name, env: ['PATH=/usr/bin:/bin'] }, async (root) => {
    await fillWithBusybox(root);
    await unpack(root, ['restic']);
    mkdirSync(join(root, 'etc/ssl/certs'), { recursive: true });
    trust(join(root, 'etc/ssl/certs/ca-certificates.crt'));
  });
}

/** Of what packages want, what is large and what nothing here needs that only runs. */
const unneeded = /^(libllvm|libz3|perl|libperl|locales)/;

/** Debian's packages, with all that they need, as if nothing were installed. Runs nothing of them. */
async function unpack(root: string, wanted: readonly string[]): Promise<void> {
  const downloads = mkdtempSync(join(tmpdir(), 'holdfast-debian-'));
  try {
    mkdirSync(join(downloads, 'partial'));
    writeFileSync(join(downloads, 'status'), '');
    const places = [`Dir::State::status=${downloads}/status`, `Dir::Cache::archives=${downloads}`];
    const options = [...places, 'Debug::NoLocking=1', 'APT::Sandbox::User=root'].flatMap((option) => ['-o', option]);
    const order = ['--no-install-recommends', '--download-only', 'install', ...wanted];
    await runToEnd('apt-get', ['-qy', ...options, ...order], { timeoutMs: 300_000 });
    const packages = readdirSync(downloads).filter((name) => name.endsWith('.deb') && !unneeded.test(name));
    for (const name of packages) await runToEnd('dpkg-deb', ['--extract', join(downloads, name), root]);
  } finally {
    rmSync(downloads, { recursive: true });
  }
}

function writeProgram(root: string, path: string, text: string): void {
  const file = join(root, path);
  mkdirSync(join(file, '..'), { recursive: true });
  writeFileSync(file, text);
  chmodSync(file, 0o755);
}

/** A directory in which everybody may make files. */
function makeTemporary(root: string, path: string): void {
  mkdirSync(join(root, path), { recursive: true });
  chmodSync(join(root, path), 0o1777);
}
