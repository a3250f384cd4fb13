import { buildBundle } from '../../../scripts/build.ts';
import { Usage } from '../../../scripts/options.ts';
import { Scratch } from '../../support/scratch.ts';
import { interruption } from '../interruption.ts';
import { describeScale, measureScale } from './scale.ts';

const usage =
  new Usage(`Measures a driver with 10000 volumes, 500 of them staged, beside one with 100. As root: npm run bench:scale -- [options]
  --volumes N  instead of 10000
  --rounds N   of each call (30)
`);

const { values } = usage.read({
  options: { volumes: { type: 'string', default: '10000' }, rounds: { type: 'string', default: '30' } },
});
const signal = interruption();
using scratch = new Scratch('bench-bundle');
const { file: bundle } = await buildBundle(scratch.join('dist'));
const many = Number(values.volumes);
const plan = {
  ...{ rounds: Number(values.rounds), starts: 5 },
  ...{ volumes: { few: 100, many }, usedVolumes: Math.floor(many / 20) },
};
process.stdout.write(`${describeScale(await measureScale(bundle, plan, signal))}\n`);
