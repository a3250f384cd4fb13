/**
 * npm run test:vm -- [--cuts N] [--seed N] [name of a test file]...
 * All that is tested in virtual machines, `long/` too; the defaults are those of a long run.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const directory = dirname(fileURLToPath(import.meta.url));
const { positionals, values } = parseArgs({
  options: { cuts: { type: 'string', default: '50' }, seed: { type: 'string' } },
  allowPositionals: true,
});

execFileSync('bash', [join(directory, '../../scripts/setup-vm.sh')], { stdio: ['ignore', 'ignore', 'inherit'] });
const all = ['.', 'long'].flatMap((part) =>
  readdirSync(join(directory, part)).map((name) => join(directory, part, name)),
);
const isWanted = (path: string) =>
  path.endsWith('.test.ts') &&
  (positionals.length === 0 || positionals.some((part) => basename(path).startsWith(part)));
const files = all.filter(isWanted);
const { status } = spawnSync(process.execPath, ['--test', '--test-concurrency=1', ...files], {
  stdio: 'inherit',
  env: {
    ...process.env,
    HOLDFAST_TEST_CUTS: values.cuts,
    ...(values.seed !== undefined && { HOLDFAST_TEST_SEED: values.seed }),
  },
});
process.exit(status ?? 1);
