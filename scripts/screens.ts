import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { stripVTControlCharacters } from 'node:util';
import { readPage } from '../test/docs/page.ts';
import { DriverProcess, environmentFor } from '../test/support/driver.ts';
import { Scratch } from '../test/support/scratch.ts';
import { buildBundle } from './build.ts';
import { DemoVolume } from './demo/volume.ts';
import { Usage } from './options.ts';

/** As most terminals are, at their smallest and larger. */
const widths = [80, 120];
/** A screen is to look at: of a long list its beginning is enough. */
const longestScreen = 14;
const output = fileURLToPath(new URL('../dist/screens', import.meta.url));

/** What the page has in the place of words, and what stands there on this machine. */
const words = (volume: string, scratch: Scratch): readonly (readonly [RegExp, string])[] => [
  [/ \[ID\]/, ''],
  [/ ID$/, ` ${volume}`],
  [/ FILE$/, ` ${scratch.join('holdfast.yaml')}`],
];
/** Commands that change something, or need what is not here: their help is shown. */
const helpOnly = /^holdfast (adopt|release|trash restore|trash purge)/;

const usage =
  new Usage(`Types the commands of docs/cli.md beside a driver with some volumes, on terminals of ${widths.join(' and ')} columns, and writes what
they show to dist/screens. As root: npm run screens
`);
usage.read({});
if (process.getuid?.() !== 0) usage.refuse('root is needed: volumes are mounted');

/** The commands of the page that show something, as they are typed here. */
function commandsFor(volume: string, scratch: Scratch): string[] {
  const typed = readPage('docs/cli.md').commands.filter((command) => command.startsWith('holdfast '));
  return typed.map((command) => {
    const own = words(volume, scratch).reduce((text, [from, to]) => text.replace(from, to), command);
    return helpOnly.test(own) ? `${own.replace(/ (PATH|\S*-\S+)$/, '')} --help` : own;
  });
}

/** What a command shows on a terminal of this width. */
function screenOf(command: string, width: number, env: NodeJS.ProcessEnv): string[] {
  const inTerminal = `stty cols ${width} rows 50; ${command}`;
  const options = ['--quiet', '--return', '--command', inTerminal, '/dev/null'];
  let text = '';
  try {
    text = execFileSync('script', options, { env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
  } catch (error) {
    // The exit code says that a problem was found, which is shown.
    if (!(error instanceof Error && 'stdout' in error)) throw error;
    text = String(error.stdout);
  }
  return stripVTControlCharacters(text).replaceAll('\r', '').trimEnd().split('\n');
}

using scratch = new Scratch('screens');
const { file } = await buildBundle(fileURLToPath(new URL('../dist', import.meta.url)));
const command = [process.execPath, file];
await using driver = DriverProcess.spawn(scratch, { command });
await driver.ready();
using client = driver.connect();
const volumes = ['data', 'logs'].map(
  (name) => new DemoVolume(client, scratch, { name, sizeBytes: 1n << 28n, fsType: 'ext4' }),
);
const [used, deleted] = volumes;
if (used === undefined || deleted === undefined) throw new Error('there are no volumes');
await used.create();
await used.stage();
await used.publish();
const snapshot = await used.cut('first');
await deleted.create({ undelete: '24h' });
await deleted.delete();

mkdirSync(scratch.join('bin'), { recursive: true });
const program = `#!/bin/sh\nexec ${command.map((word) => `'${word}'`).join(' ')} "$@"\n`;
writeFileSync(scratch.join('bin', 'holdfast'), program, { mode: 0o755 });
writeFileSync(
  scratch.join('holdfast.yaml'),
  'pools:\n  default: {}\nnodes:\n  db-*: { pools: { fast: { match: { bus: nvme } } } }\n',
);
const env = { ...environmentFor(scratch), PATH: `${scratch.join('bin')}:${process.env['PATH']}`, TERM: 'xterm' };
mkdirSync(output, { recursive: true });
for (const width of widths) {
  const wide: string[] = [];
  const screens = commandsFor(used.id, scratch).map((each) => {
    const lines = screenOf(each, width, env);
    if (lines.some((line) => [...line].length > width)) wide.push(each);
    const rest = lines.length - longestScreen;
    const shown = rest > 0 ? [...lines.slice(0, longestScreen), `… ${rest} more lines`] : lines;
    return `$ ${each.replaceAll(scratch.path, '…')}\n${shown.join('\n')}\n`;
  });
  const path = join(output, `${width}.txt`);
  writeFileSync(path, screens.join('\n'));
  console.log(
    `${path}: ${screens.length} screens; wider than ${width} columns: ${wide.length === 0 ? 'none' : wide.join(', ')}`,
  );
}

await used.unpublish();
await used.unstage();
await client.controller.DeleteSnapshot({ snapshot_id: snapshot });
await used.delete();
await driver.stop();
