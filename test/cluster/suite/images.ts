import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { runToEnd } from '../harness/command.ts';
import { fillWithBusybox, makeImage } from '../harness/images.ts';

/**
 * The images that the suite's storage tests use, under the names that it has for them: agnhost is its own program, and
 * busybox, nginx and pause are played by this machine's busybox. Its other images belong to other tests.
 */
export async function makeSuiteImages(programs: string, repositories: string, directory: string): Promise<string[]> {
  const list = await runToEnd(join(programs, 'e2e.test'), ['--list-images'], {
    env: { ...process.env, KUBE_TEST_REPO_LIST: repositories },
  });
  const archives: string[] = [];
  for (const name of list.split('\n').filter((line) => line.startsWith('localhost/'))) {
    const short = /^localhost\/([a-z]+):/.exec(name)?.[1] ?? '';
    if (short === 'agnhost') {
      const plan = { name, entrypoint: ['/agnhost'], command: ['pause'] };
      const fill = async (root: string) => {
        await fillWithBusybox(root);
        copyFileSync(join(programs, 'agnhost'), join(root, 'agnhost'));
      };
      archives.push(await makeImage(directory, plan, fill));
    }
    if (['busybox', 'nginx', 'pause'].includes(short)) {
      const command = short === 'busybox' ? ['sh'] : ['sleep', '2147483647'];
      archives.push(await makeImage(directory, { name, command }, fillWithBusybox));
    }
  }
  return archives;
}
