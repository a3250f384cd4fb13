import { existsSync, readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { runToEnd } from '../command.ts';

const projectRoot = fileURLToPath(new URL('../../../..', import.meta.url));

/** What users have who have not upgraded yet. */
export interface LastRelease {
  readonly version: string;
  /** Its sources. */
  readonly root: string;
  /** Its image, and the archive that has it. */
  readonly image: string;
  readonly archive: string;
}

/** The last version of CHANGELOG.md, from the project's history; its image is made the first time (some minutes). */
export async function makeLastRelease(directory: string): Promise<LastRelease> {
  const changelog = readFileSync(join(projectRoot, 'CHANGELOG.md'), 'utf8');
  const version = /^## (\d+\.\d+\.\d+) - /m.exec(changelog)?.[1];
  if (version === undefined) throw new Error('CHANGELOG.md has no version');
  const commit = await commitOf(version);
  const root = join(directory, version);
  // A repository, as the image's times are those of its commit.
  if (!existsSync(root)) {
    await runToEnd('git', ['clone', '--quiet', '--shared', '--no-checkout', projectRoot, root]);
    await runToEnd('git', ['checkout', '--quiet', commit], { cwd: root });
  }
  const image = `localhost/holdfast:${version}-release`;
  const archive = join(projectRoot, '.cache', 'image', `release-${commit.slice(0, 12)}.tar`);
  if (!existsSync(archive)) await makeImage(root, image, archive);
  return { version, root, image, archive };
}

/** Its tag; else what brought its heading into the changelog. */
async function commitOf(version: string): Promise<string> {
  const git = (...parameters: string[]) => runToEnd('git', parameters, { cwd: projectRoot });
  const tagged = await git('rev-parse', '--verify', '--quiet', `v${version}^{commit}`).catch(() => '');
  if (tagged !== '') return tagged.trim();
  const commits = await git('log', '--format=%H', `-S## ${version} - `, '--', 'CHANGELOG.md');
  const first = commits.trim().split('\n').at(-1);
  if (first === undefined || first === '') {
    throw new Error(`the history has no version ${version}: git fetch --unshallow --tags`);
  }
  return first;
}

async function makeImage(root: string, image: string, archive: string): Promise<void> {
  console.error(`cluster: making the image of the last release, ${image}`);
  const [lock, ownLock] = [root, projectRoot].map((place) => readFileSync(join(place, 'package-lock.json'), 'utf8'));
  if (lock === ownLock) symlinkSync(join(projectRoot, 'node_modules'), join(root, 'node_modules'));
  else await runToEnd('npm', ['ci', '--no-audit', '--no-fund'], { cwd: root });
  const parameters = [join(root, 'deploy', 'image', 'build.ts'), '--name', image, '--output', archive];
  await runToEnd(process.execPath, parameters, { cwd: root });
}
