/**
 * `npm run test:crash`: every crash point of every operation, then random kills under 8 callers.
 *
 *   --kills 500     how many random kills
 *   --seed NUMBER   repeats the choices of an earlier run
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const { values } = parseArgs({ options: { kills: { type: 'string', default: '500' }, seed: { type: 'string' } } });
const seed = values.seed ?? `${Math.floor(Math.random() * 2 ** 32)}`;
const tests = ['steps', 'random'].map((name) => fileURLToPath(new URL(`${name}.test.ts`, import.meta.url)));

console.log(`npm run test:crash -- --kills ${values.kills} --seed ${seed}`);
const runner = spawn(process.execPath, ['--test', '--test-concurrency=1', ...tests], {
  stdio: 'inherit',
  env: { ...process.env, HOLDFAST_TEST_KILLS: values.kills, HOLDFAST_TEST_SEED: seed },
});
const [code] = await once(runner, 'exit');
process.exitCode = code === 0 ? 0 : 1;
