import { execFileSync, spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Usage } from '../../scripts/options.ts';

const directory = dirname(fileURLToPath(import.meta.url));
const usage =
  new Usage(`All that is tested in virtual machines, what takes long too. As root: npm run test:vm -- [options] [name of a test file]...
Of the names the beginnings are enough: lvm has all tests of volume groups. Without names all are run, which takes hours.
  --cuts N     power cuts in each test of power (50)
  --seed N     repeats the choices of an earlier run
`);
const { positionals, values } = usage.read({
  options: { cuts: { type: 'string', default: '50' }, seed: { type: 'string' } },
  allowPositionals: true,
});

const all = ['.', 'long'].flatMap((part) =>
  readdirSync(join(directory, part)).map((name) => join(directory, part, name)),
);
const isWanted = (path: string) =>
  path.endsWith('.test.ts') &&
  (positionals.length === 0 || positionals.some((part) => basename(path).startsWith(part)));
const files = all.filter(isWanted);
usage.wholeNumber('cuts', values.cuts);
usage.requireKnown(
  positionals,
  (part) => files.some((path) => basename(path).startsWith(part)),
  'no test file has a name that begins with',
);
execFileSync('bash', [join(directory, '../../scripts/setup-vm.sh')], { stdio: ['ignore', 'ignore', 'inherit'] });
const { status } = spawnSync(process.execPath, ['--test', '--test-concurrency=1', ...files], {
  stdio: 'inherit',
  env: {
    ...process.env,
    HOLDFAST_TEST_CUTS: values.cuts,
    ...(values.seed !== undefined && { HOLDFAST_TEST_SEED: values.seed }),
  },
});
process.exit(status ?? 1);
