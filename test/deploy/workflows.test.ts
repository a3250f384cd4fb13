import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { runToEnd } from '../cluster/harness/command.ts';

const workflows = fileURLToPath(new URL('../../.github/workflows', import.meta.url));
const version = 'v1.7.7';

/** The linter of GitHub's workflows, built with Go into the user's cache, the first time. */
async function actionlint(): Promise<string> {
  const cache = process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache');
  const directory = join(cache, 'holdfast', 'bin', `actionlint-${version}`);
  const program = join(directory, 'actionlint');
  if (existsSync(program)) return program;
  mkdirSync(directory, { recursive: true });
  await runToEnd('go', ['install', '-trimpath', `github.com/rhysd/actionlint/cmd/actionlint@${version}`], {
    env: { ...process.env, GOBIN: directory, CGO_ENABLED: '0' },
  });
  return program;
}

test('the workflows have no mistake that their linter knows', { timeout: 300_000 }, async () => {
  const files = readdirSync(workflows).map((name) => join(workflows, name));
  await runToEnd(await actionlint(), ['-no-color', '-shellcheck=', ...files]);
});
