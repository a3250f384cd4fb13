import { writeFileSync } from 'node:fs';
import { Usage } from '../../../scripts/options.ts';
import { judgeDevices } from './goals.ts';
import { measureDevices } from './measure.ts';
import { devicesPlans } from './plans.ts';
import { describeDevices } from './report.ts';

const usage =
  new Usage(`Measures block volumes of the kinds lvm and disk, and encrypted ones, beside what lies below them, in a virtual
machine. As root: npm run bench:devices -- [options]
  --quick      two minutes, for a first look
  --full       more rounds, for a machine that is not quiet
  --check      ends with 1 if a goal is missed
  --json FILE  the result for programs
`);

const { values } = usage.read({
  options: {
    quick: { type: 'boolean', default: false },
    full: { type: 'boolean', default: false },
    check: { type: 'boolean', default: false },
    json: { type: 'string' },
  },
});
const plan = devicesPlans[values.quick ? 'quick' : values.full ? 'full' : 'usual'];
const results = await measureDevices(plan, (text) => process.stderr.write(`bench: ${text}\n`));
const goals = judgeDevices(results);
const missed = goals.filter(({ met }) => !met);
process.stdout.write(`${describeDevices(results)}\n\n${goals.length - missed.length} of ${goals.length} goals met\n`);
for (const { measured, name } of missed) process.stderr.write(`bench: missed: ${name}: ${measured}\n`);
if (values.json !== undefined) {
  writeFileSync(values.json, `${JSON.stringify({ results, goals }, null, 2)}\n`);
}
if (values.check && missed.length > 0) process.exitCode = 1;
