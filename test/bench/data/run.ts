import { buildBundle } from '../../../scripts/build.ts';
import { Usage } from '../../../scripts/options.ts';

import { Scratch } from '../../support/scratch.ts';
import { interruption } from '../interruption.ts';
import { describeDataPath, measureDataPath } from './data-path.ts';

const usage =
  new Usage(`Measures reads and writes in volumes of images beside the filesystem that they lie on, with fio(1), on this machine.
As root: npm run bench:data -- [options]
  --quick      a minute, for a first look
  --rounds N   more of them, for a machine that is not quiet
`);

const { values } = usage.read({
  options: { quick: { type: 'boolean', default: false }, rounds: { type: 'string', default: '5' } },
});
const signal = interruption();
using scratch = new Scratch('bench-bundle');
const { file: bundle } = await buildBundle(scratch.join('dist'));
const plan = values.quick ? { rounds: 1, seconds: 1 } : { rounds: Number(values.rounds), seconds: 3 };
process.stdout.write(`${describeDataPath(await measureDataPath(bundle, plan, signal))}\n`);
