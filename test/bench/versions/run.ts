import { existsSync } from 'node:fs';
import { buildBundle } from '../../../scripts/build.ts';
import { Usage } from '../../../scripts/options.ts';
import { Scratch } from '../../support/scratch.ts';
import { type PoolName, pools } from '../driver-process.ts';
import { interruption } from '../interruption.ts';
import { mebibytes } from '../result.ts';
import { table } from '../table.ts';
import { measureVersions, type VersionResult, type VersionsResult } from './measure.ts';

const usage: Usage = new Usage(`Compares an earlier bundle with this one, beside the raw system calls. As root:
  npm run bench:versions -- BUNDLE [options]
BUNDLE is a dist/holdfast.mjs, which \`node scripts/build.ts\` makes in a checkout of the earlier version.
  --rounds N   seven by default
  --pool NAME  'file' (XFS in a backing file, the default) or 'directory' (of this machine's filesystem)
`);

function describe({ floorRate, results }: VersionsResult, pool: PoolName, rounds: number): string {
  const row = (name: string, value: (of: VersionResult) => number, digits: number) => {
    const [before, after] = [value(results.before), value(results.after)];
    return [name, before.toFixed(digits), after.toFixed(digits), (after / before).toFixed(2)];
  };
  return [
    `Pool '${pool}', medians of ${rounds} rounds; the floor lives ${floorRate.toFixed(1)} lives a second`,
    table(
      ['', 'before', 'after', 'ratio'],
      [
        row('lives a second, 1 caller, of the floor', (of) => of.ofFloor.one, 2),
        row('lives a second, 16 callers, of the floor', (of) => of.ofFloor.many, 2),
        row('processor time of a life, 1 caller (ms)', (of) => of.cpuMs.one, 2),
        row('processor time of a life, 16 callers (ms)', (of) => of.cpuMs.many, 2),
        row('CreateVolume p50, 1 caller (ms)', (of) => of.createP50Ms.one, 2),
        row('CreateVolume p50, 16 callers (ms)', (of) => of.createP50Ms.many, 2),
        row('first 100 lives, of 100 later ones', (of) => of.coldOfWarm, 2),
        row('anonymous memory at its peak (MiB)', (of) => mebibytes(of.peakAnonymousBytes), 1),
      ],
    ),
  ].join('\n');
}

async function main(): Promise<void> {
  const { values, positionals } = usage.read({
    options: { rounds: { type: 'string', default: '7' }, pool: { type: 'string', default: 'file' } },
    allowPositionals: true,
  });
  const [before, ...others] = positionals;
  if (before === undefined || others.length > 0) usage.refuse('name one bundle');
  if (!existsSync(before)) usage.refuse(`there is no ${before}`);
  const rounds = usage.wholeNumber('rounds', values.rounds);
  if (rounds === 0) usage.refuse('--rounds is at least 1');
  const pool = pools.find((name) => name === values.pool);
  if (pool === undefined) usage.refuse(`there is no pool ${values.pool}`);
  if (process.getuid?.() !== 0) throw new Error('must be run as root: it mounts filesystems');
  using scratch = new Scratch('bench-versions');
  const { file: after } = await buildBundle(scratch.join('dist'));
  const say = (text: string) => process.stderr.write(`bench: ${text}\n`);
  const plan = { pool, rounds, lives: { floor: 25, one: 40, many: 160 } };
  const result = await measureVersions({ before, after }, plan, say, interruption());
  process.stdout.write(`${describe(result, pool, rounds)}\n`);
}

try {
  await main();
} catch (error) {
  process.stderr.write(`bench: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
