import { isMainThread } from 'node:worker_threads';
import { CommanderError } from 'commander';
import { exitCodes, type Output, problemLine } from './cli/output/output.ts';
import { printable } from './cli/output/text.ts';
import { makeProgram } from './cli/program.ts';
import type { ConfigSource, Parsed } from './config/config.ts';

/** Read before parsing: problems of a command line that cannot be parsed are JSON too. */
const json = process.argv.includes('--json');

const output: Output = {
  line: (text) => process.stdout.write(`${text}\n`),
  // It may quote what others wrote: a key of the configuration, a name in a record.
  problem: (code, message) => process.stderr.write(`${problemLine(code, printable(message), { json })}\n`),
  colours: process.stdout.isTTY === true && process.stdout.hasColors(),
  // 0: the terminal does not know.
  width: process.argv.includes('--wide') ? undefined : process.stdout.columns || undefined,
};

const program = makeProgram({
  output,
  async look(command) {
    const { parseConfig } = await import('./config/config.ts');
    const config = await configured(parseConfig);
    if (config !== undefined) process.exitCode = await command(config);
  },
  async serve(command) {
    const { parseServeConfig } = await import('./config/config.ts');
    const config = await configured(parseServeConfig);
    if (config === undefined) return;
    const code = await command(config);
    const { exitAtOnce } = await import('./kernel/process/own-process.ts');
    exitAtOnce(code);
  },
  async control(command) {
    const { parseControllerConfig } = await import('./config/controller-config.ts');
    const config = await configured(parseControllerConfig);
    if (config !== undefined) process.exit(await command(config));
  },
  async inspect(command) {
    const { parsePlaces } = await import('./config/config.ts');
    const places = await configured(parsePlaces);
    if (places !== undefined) process.exitCode = await command(places);
  },
  refuse(sentence) {
    const words = sentence
      .trim()
      .replace(/^error: /, '')
      .replace(/\n\(Did you mean (?:one of )?(.*)\?\)$/, " (did you mean '$1'?)");
    output.problem('INVALID_ARGUMENT', `${words.replace(/\.$/, '')}; holdfast --help shows what there is`);
  },
});

async function configured<T>(parse: (source: ConfigSource) => Promise<Parsed<T>>): Promise<T | undefined> {
  const { processSource } = await import('./config/config.ts');
  const parsed = await parse(processSource());
  if ('config' in parsed) return parsed.config;
  for (const problem of parsed.problems) output.problem('INVALID_ARGUMENT', problem);
  process.exitCode = exitCodes.usage;
  return undefined;
}

// The reader of our output may stop reading: `holdfast volumes | head -1`.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  process.exit(error.code === 'EPIPE' ? exitCodes.ok : exitCodes.failed);
});

if (isMainThread) await run();
else await import('./move/tree/small.ts');

async function run(): Promise<void> {
  try {
    await program.parseAsync();
  } catch (error) {
    if (error instanceof CommanderError) {
      process.exitCode = error.exitCode === 0 ? exitCodes.ok : exitCodes.usage;
    } else {
      const { explain } = await import('./kernel/call/explain.ts');
      const { codeOf } = await import('./cli/output/problem-code.ts');
      output.problem(codeOf(error), explain(error));
      process.exitCode = exitCodes.failed;
    }
  }
}
