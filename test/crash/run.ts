import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { Usage } from '../../scripts/options.ts';

const usage =
  new Usage(`The driver is killed at every step of every operation, then at random under 8 callers. As root: npm run test:crash -- [options]
  --kills N    how many random kills (500)
  --seed N     repeats the choices of an earlier run
`);
const { values } = usage.read({ options: { kills: { type: 'string', default: '500' }, seed: { type: 'string' } } });
usage.wholeNumber('kills', values.kills);
const seed = values.seed ?? `${Math.floor(Math.random() * 2 ** 32)}`;
const tests = ['steps', 'random'].map((name) => fileURLToPath(new URL(`${name}.test.ts`, import.meta.url)));

console.log(`npm run test:crash -- --kills ${values.kills} --seed ${seed}`);
const runner = spawn(process.execPath, ['--test', '--test-concurrency=1', ...tests], {
  stdio: 'inherit',
  env: { ...process.env, HOLDFAST_TEST_KILLS: values.kills, HOLDFAST_TEST_SEED: seed },
});
const [code] = await once(runner, 'exit');
process.exitCode = code === 0 ? 0 : 1;
