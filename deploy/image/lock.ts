import type { DebianPackage } from './debian.ts';
import type { NpmPackage } from './npm.ts';

/** What an image is made of, to be committed: a line for each package, of Debian and of npm. */
export function lockText(debian: readonly DebianPackage[], npm: readonly NpmPackage[]): string {
  const lines = [
    ...debian.map(({ name, version, sha256 }) => `${name} ${version} ${sha256}`),
    ...npm.map(({ name, version, integrity }) => `npm:${name} ${version} ${integrity}`),
  ];
  return lines.map((line) => `${line}\n`).join('');
}

/** In which packages a build differs from the lock, in words. */
export function differences(locked: string, found: string): string[] {
  const before = versionsIn(locked);
  const now = versionsIn(found);
  const names = [...new Set([...before.keys(), ...now.keys()])].sort();
  return names.flatMap((name) => {
    const [old, current] = [before.get(name), now.get(name)];
    return old === current ? [] : [`${name}: locked ${old ?? 'nothing'}, got ${current ?? 'nothing'}`];
  });
}

function versionsIn(text: string): Map<string, string> {
  const lines = text.split('\n').filter((line) => line !== '');
  return new Map(lines.map((line) => [line.split(' ', 1)[0] ?? '', line.slice(line.indexOf(' ') + 1)]));
}
