import './memory.ts';
import { Command, CommanderError } from 'commander';
import { exitCodes, type Output } from './cli/output.ts';
import type { Config, ConfigSource, Parsed } from './config.ts';
import { version } from './version.ts';

/*
 * What a command needs is loaded when it runs: `holdfast volumes` has no use for gRPC, and the driver is asked for its
 * first Probe soon after it started.
 */

const output: Output = {
  line: (text) => process.stdout.write(`${text}\n`),
  problem: (text) => process.stderr.write(`holdfast: ${text}\n`),
  colours: process.stdout.isTTY === true && process.stdout.hasColors(),
};

const program = new Command('holdfast')
  .description('A CSI driver: durable Kubernetes volumes on the disks of this node.')
  .version(version)
  .exitOverride()
  .showHelpAfterError('(holdfast --help shows what there is)')
  .addHelpText('after', '\nConfiguration comes from the environment and a YAML file: see docs/configuration.md.');

program
  .command('serve')
  .description('run the driver, on the socket that CSI_ENDPOINT names')
  .action(async () => {
    const { parseServeConfig } = await import('./config.ts');
    const config = await configured(parseServeConfig);
    if (config === undefined) return;
    const { serveCommand } = await import('./cli/serve.ts');
    process.exit(await serveCommand(config, output));
  });

program
  .command('pools')
  .description('show the pools of this node and how full they are')
  .option('--json', 'print JSON, for programs')
  .action((options: { json?: true }) =>
    look(async (config) => {
      const { poolsCommand } = await import('./cli/pools.ts');
      return poolsCommand(config, output, { json: options.json === true });
    }),
  );

program
  .command('volumes')
  .description('show the volumes of this node, or all that is known of one')
  .argument('[ID]', "a volume's id or name")
  .option('--json', 'print JSON, for programs')
  .action((wanted: string | undefined, options: { json?: true }) =>
    look(async (config) => {
      const { volumesCommand } = await import('./cli/volumes.ts');
      return volumesCommand(config, output, { json: options.json === true, wanted });
    }),
  );

program
  .command('doctor')
  .description('check that this node has what the driver needs, and say what to do where it has not')
  .option('--json', 'print JSON, for programs')
  .action((options: { json?: true }) =>
    look(async (config) => {
      const { doctorCommand } = await import('./cli/doctor.ts');
      return doctorCommand(config, output, { json: options.json === true });
    }),
  );

/** Runs a command that only looks. */
async function look(command: (config: Config) => Promise<number>): Promise<void> {
  const { parseConfig } = await import('./config.ts');
  const config = await configured(parseConfig);
  if (config !== undefined) process.exitCode = await command(config);
}

async function configured<T>(parse: (source: ConfigSource) => Promise<Parsed<T>>): Promise<T | undefined> {
  const { processSource } = await import('./config.ts');
  const parsed = await parse(processSource());
  if ('config' in parsed) return parsed.config;
  for (const problem of parsed.problems) output.problem(problem);
  process.exitCode = exitCodes.usage;
  return undefined;
}

// Whoever reads our output may stop reading: `holdfast volumes | head -1`.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  process.exit(error.code === 'EPIPE' ? exitCodes.ok : exitCodes.failed);
});

try {
  await program.parseAsync();
} catch (error) {
  if (error instanceof CommanderError) {
    process.exitCode = error.exitCode === 0 ? exitCodes.ok : exitCodes.usage;
  } else {
    const { explain } = await import('./cli/explain.ts');
    output.problem(explain(error));
    process.exitCode = exitCodes.failed;
  }
}
