import { Argument, Command, CommanderError, Option } from 'commander';
import { exitCodes, type Output } from './cli/output.ts';
import type { ReclaimPolicy } from './cli/persistent-volume.ts';
import { printable } from './cli/text.ts';
import type { Config, ConfigSource, Parsed } from './config/config.ts';
import type { Wanted } from './pool/sight.ts';
import { version } from './version.ts';

/*
 * What a command needs is loaded when it runs: `holdfast volumes` has no use for gRPC, and the driver is asked for its
 * first Probe soon after it started.
 */

const output: Output = {
  line: (text) => process.stdout.write(`${text}\n`),
  // It may quote what others wrote: a key of the configuration, a name in a record.
  problem: (text) => process.stderr.write(`holdfast: ${printable(text)}\n`),
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
    const { parseServeConfig } = await import('./config/config.ts');
    const config = await configured(parseServeConfig);
    if (config === undefined) return;
    const { serveCommand } = await import('./cli/serve.ts');
    const code = await serveCommand(config, output);
    const { exitAtOnce } = await import('./kernel/process/exit.ts');
    exitAtOnce(code);
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
  .command('snapshots')
  .description('show the snapshots of this node')
  .option('--json', 'print JSON, for programs')
  .action((options: { json?: true }) =>
    look(async (config) => {
      const { snapshotsCommand } = await import('./cli/snapshots.ts');
      return snapshotsCommand(config, output, { json: options.json === true });
    }),
  );

const trash = program
  .command('trash')
  .description('show deleted volumes that can be brought back; the driver must run')
  .option('--json', 'print JSON, for programs')
  .action((options: { json?: true }) =>
    look(async (config) => {
      const { trashCommand } = await import('./cli/trash.ts');
      return trashCommand(config, output, { json: options.json === true });
    }),
  );

trash
  .command('restore')
  .description('bring a deleted volume back, as it was')
  .argument('<ID>', "the volume's id")
  .option('--json', 'print JSON, for programs')
  .action((id: string, _options: object, command: Command) =>
    look(async (config) => {
      const { restoreCommand } = await import('./cli/trash.ts');
      return restoreCommand(config, output, { id, json: wantsJson(command) });
    }),
  );

trash
  .command('purge')
  .description('remove a deleted volume for good, or all of them')
  .argument('[ID]', "the volume's id; without one, everything in the trash goes")
  .option('--yes', 'do not ask')
  .option('--json', 'print JSON, for programs')
  .action((id: string | undefined, options: { yes?: true }, command: Command) =>
    look(async (config) => {
      const { purgeCommand } = await import('./cli/trash.ts');
      return purgeCommand(config, output, { id, json: wantsJson(command), yes: options.yes === true });
    }),
  );

program
  .command('who')
  .description('show who holds a volume on this node: processes, mounts, devices; the driver must run')
  .argument('<ID>', "the volume's id")
  .option('--json', 'print JSON, for programs')
  .action((id: string, options: { json?: true }) =>
    look(async (config) => {
      const { whoCommand } = await import('./cli/who.ts');
      return whoCommand(config, output, { id, json: options.json === true });
    }),
  );

program
  .command('export')
  .description('print the PersistentVolumes of this node, for a cluster that has forgotten them')
  .argument('[ID]', "a volume's id or name; without one, all volumes")
  .option('--storage-class <NAME>', 'the class that the claims name')
  .addOption(new Option('--reclaim-policy <POLICY>', 'what becomes of them').choices(['Retain', 'Delete']))
  .option('--json', 'print JSON, for programs')
  .action((wanted: string | undefined, options: ExportFlags) =>
    look(async (config) => {
      const { exportCommand } = await import('./cli/export.ts');
      const { json, reclaimPolicy = 'Retain', storageClass } = options;
      return exportCommand(config, output, { json: json === true, wanted, reclaimPolicy, storageClass });
    }),
  );

program
  .command('adopt')
  .description('make a volume of what lies at a path, and print its PersistentVolume; the driver must run')
  .argument('<PATH>', "a directory on the pool's own filesystem, which nobody uses now")
  .requiredOption('--pool <POOL>', 'the pool that it is to belong to')
  .requiredOption('--claim <NAMESPACE/NAME>', 'the PersistentVolumeClaim that it is for')
  .option('--size <SIZE>', 'such as 10Gi; without it, half as much again as it takes now, in whole GiB')
  .option('--class, --storage-class <NAME>', 'the storage class that the claim names')
  .option('--retain', 'to delete the claim does not delete the volume')
  .option('--name <NAME>', "the volume's own name; without it, it follows from the claim")
  .option('--json', 'print JSON, for programs')
  .action((path: string, options: AdoptFlags) =>
    look(async (config) => {
      const { adoptCommand } = await import('./cli/adopt.ts');
      const { claim, json, name, pool, retain, size, storageClass } = options;
      const reclaimPolicy = retain === true ? 'Retain' : 'Delete';
      const wishes = { path, pool, claim, name, size, reclaimPolicy, storageClass } as const;
      return adoptCommand(config, output, { ...wishes, json: json === true });
    }),
  );

program
  .command('release')
  .description('make what it was before of a volume that was adopted; the driver must run')
  .argument('<ID>', "the volume's id")
  .option('--to <PATH>', 'where its data is to lie; without it, where it was before')
  .option('--json', 'print JSON, for programs')
  .action((id: string, options: { json?: true; to?: string }) =>
    look(async (config) => {
      const { releaseCommand } = await import('./cli/adopt.ts');
      return releaseCommand(config, output, { id, json: options.json === true, to: options.to });
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

// Typed by no one: how a command has the pools looked at by a process that may be left behind (src/cli/look.ts).
program
  .command('look-at-pools', { hidden: true })
  .addArgument(new Argument('<WANTED>').choices(['records', 'capacity', 'attachments']))
  .action((wanted: Wanted) =>
    look(async (config) => {
      const { lookerCommand } = await import('./cli/looker.ts');
      return lookerCommand(config, wanted);
    }),
  );

interface AdoptFlags {
  readonly claim: string;
  readonly storageClass?: string;
  readonly json?: true;
  readonly name?: string;
  readonly pool: string;
  readonly retain?: true;
  readonly size?: string;
}

interface ExportFlags {
  readonly json?: true;
  readonly reclaimPolicy?: ReclaimPolicy;
  readonly storageClass?: string;
}

/** Of a subcommand: the flag may stand before or after its name. */
function wantsJson(command: Command): boolean {
  return command.optsWithGlobals()['json'] === true;
}

/** Runs a command that looks, or asks the running driver. */
async function look(command: (config: Config) => Promise<number>): Promise<void> {
  const { parseConfig } = await import('./config/config.ts');
  const config = await configured(parseConfig);
  if (config !== undefined) process.exitCode = await command(config);
}

async function configured<T>(parse: (source: ConfigSource) => Promise<Parsed<T>>): Promise<T | undefined> {
  const { processSource } = await import('./config/config.ts');
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
    const { explain } = await import('./kernel/call/explain.ts');
    output.problem(explain(error));
    process.exitCode = exitCodes.failed;
  }
}
