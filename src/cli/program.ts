import { Argument, Command, Option } from 'commander';
import type { Config, ServeConfig } from '../config/config.ts';
import type { ControllerConfig } from '../config/controller-config.ts';
import type { HostPlaces } from '../config/locations.ts';
import { type Wanted, wantedDetails } from '../pool/sight.ts';
import { version } from '../version.ts';
import { aVolume, choice, type Flags, forBoth, forPrograms, portIn } from './arguments.ts';
import { shells } from './completion.ts';
import type { Output } from './output/output.ts';
import type { ReclaimPolicy } from './persistent-volume.ts';
import { addChanges } from './program-changes.ts';

/*
 * The commands. A command loads what it needs when it runs: `holdfast volumes` has no use for gRPC, and the driver is
 * asked for its first Probe soon after it started.
 */

/** Runs the commands, each with what it needs. */
export interface Runner {
  readonly output: Output;
  /** A command that looks, or asks the running driver. */
  look(command: (config: Config) => Promise<number>): Promise<void>;
  serve(command: (config: ServeConfig) => Promise<number>): Promise<void>;
  control(command: (config: ControllerConfig) => Promise<number>): Promise<void>;
  /** A command that looks at a file of configuration, which may belong to another machine. */
  inspect(command: (places: HostPlaces) => Promise<number>): Promise<void>;
  /** Reports commander's sentence about a wrong command line. */
  refuse(sentence: string): void;
}

interface ExportFlags extends Flags {
  readonly reclaimPolicy?: ReclaimPolicy;
  readonly storageClass?: string;
}

interface ConvertFlags {
  readonly device?: true;
  readonly program?: string;
}

interface ForgetFlags extends Flags {
  readonly dryRun?: true;
  readonly evenSo?: true;
  readonly undo?: true;
}

export function makeProgram({ control, inspect, look, output, refuse, serve }: Runner): Command {
  const program = new Command('holdfast')
    .description('A CSI driver: durable Kubernetes volumes on the disks of this node.')
    .version(version)
    .exitOverride()
    .configureOutput({ outputError: refuse })
    .addHelpText('after', '\nConfiguration comes from the environment and a YAML file: see docs/configuration.md.');

  program
    .command('serve')
    .description('run the driver, on the socket that CSI_ENDPOINT names')
    .action(() =>
      serve(async (config) => {
        const { serveCommand } = await import('./serve.ts');
        return serveCommand(config, output);
      }),
    );

  program
    .command('controller')
    .description('run a replica of the controller of many nodes, on the socket that CSI_ENDPOINT names')
    .action(() =>
      control(async (config) => {
        const { controllerCommand } = await import('./controller.ts');
        return controllerCommand(config);
      }),
    );

  forPrograms(program.command('forget-node'))
    .description('stop the controller from waiting for a node that will not return, and list the volumes on it')
    .argument('<NODE>', 'the name of its Node')
    .option('--dry-run', 'only list')
    .option('--even-so', 'although its Node is still there')
    .option('--undo', 'let it link again, with what it has')
    .action((node: string, flags: ForgetFlags) =>
      control(async (config) => {
        const { forgetNodeCommand } = await import('./fleet/forget-node.ts');
        return forgetNodeCommand(config, output, {
          node,
          dryRun: flags.dryRun === true,
          evenSo: flags.evenSo === true,
          undo: flags.undo === true,
          json: flags.json === true,
        });
      }),
    );

  forBoth(program.command('pools'))
    .description('show the pools of this node and how full they are')
    .action((options: Flags) =>
      look(async (config) => {
        const { poolsCommand } = await import('./pools.ts');
        return poolsCommand(config, output, { json: options.json === true });
      }),
    );

  forBoth(program.command('volumes'))
    .description('show the volumes of this node, or all that is known of one')
    .argument('[VOLUME]', aVolume)
    .action((wanted: string | undefined, options: Flags) =>
      look(async (config) => {
        const { volumesCommand } = await import('./volumes.ts');
        return volumesCommand(config, output, { json: options.json === true, wanted });
      }),
    );

  forBoth(program.command('snapshots'))
    .description('show the snapshots of this node')
    .action((options: Flags) =>
      look(async (config) => {
        const { snapshotsCommand } = await import('./snapshots.ts');
        return snapshotsCommand(config, output, { json: options.json === true });
      }),
    );

  forBoth(program.command('disks'))
    .description('show the disks of this node, and why each is, or is not, free to be given to a pool')
    .action((options: Flags) =>
      look(async () => {
        const { disksCommand } = await import('./disks.ts');
        return disksCommand(output, { json: options.json === true });
      }),
    );

  addChanges(program, { look, output });

  forPrograms(program.command('who'))
    .description('show the processes, mounts and devices that hold a volume on this node; the driver must run')
    .argument('<VOLUME>', aVolume)
    .action((wanted: string, options: Flags) =>
      look(async (config) => {
        const { whoCommand } = await import('./who.ts');
        return whoCommand(config, output, { wanted, json: options.json === true });
      }),
    );

  program
    .command('ui')
    .description('show this node on a page in a browser on this machine, until it is interrupted')
    .option('--port <PORT>', 'the port of the loopback device; without it, a free one', portIn, 0)
    .action(({ port }: { port: number }) =>
      look(async (config) => {
        const { uiCommand } = await import('./ui/ui.ts');
        return uiCommand(config, output, { port });
      }),
    );

  forPrograms(program.command('export'))
    .description('print the PersistentVolumes of this node, for a cluster that has forgotten them')
    .argument('[VOLUME]', `${aVolume}; without one, all volumes`)
    .option('--storage-class <NAME>', 'the class that the claims name')
    .addOption(choice(new Option('--reclaim-policy <POLICY>', 'what becomes of them'), ['Retain', 'Delete']))
    .action((wanted: string | undefined, options: ExportFlags) =>
      look(async (config) => {
        const { exportCommand } = await import('./export.ts');
        const { json, reclaimPolicy = 'Retain', storageClass } = options;
        return exportCommand(config, output, { json: json === true, wanted, reclaimPolicy, storageClass });
      }),
    );

  forPrograms(program.command('doctor'))
    .description('check that this node has what the driver needs, and say what to do where it has not')
    .action((options: Flags) =>
      look(async (config) => {
        const { doctorCommand } = await import('./doctor.ts');
        return doctorCommand(config, output, { json: options.json === true });
      }),
    );

  const config = program.command('config').description('look at a file of configuration');
  forPrograms(config.command('check'))
    .description('report the errors in a file of configuration, or which pools it gives to which nodes')
    .argument('<FILE>', 'the file, such as holdfast.yaml; - for standard input')
    .option('--node <NAME>', 'what it says to this node alone')
    .action((file: string, { json, node }: Flags & { node?: string }) =>
      inspect(async (places) => {
        const { configCheckCommand } = await import('./config-check.ts');
        return configCheckCommand(places, output, { file, json: json === true, node });
      }),
    );

  program
    .command('convert-flexvolume')
    .description('print PersistentVolumes of kind exec for those of FlexVolume drivers in a manifest; changes nothing')
    .argument('<FILE>', 'from kubectl get pv -o yaml; - for standard input')
    .option('--program <NAME>', 'its name in the configuration; without it the name of the FlexVolume driver')
    .option('--device', 'the program presents a device')
    .action((file: string, { device, program: name }: ConvertFlags) =>
      inspect(async () => {
        const { convertFlexVolumeCommand } = await import('./convert-flexvolume.ts');
        return convertFlexVolumeCommand(output, { file, program: name, device: device === true });
      }),
    );

  program
    .command('convert-nfs')
    .description('print PersistentVolumes of kind nfs for those of other drivers in a manifest; changes nothing')
    .argument('<FILE>', 'from kubectl get pv -o yaml; - for standard input')
    .action((file: string) =>
      inspect(async () => {
        const { convertNfsCommand } = await import('./convert-nfs.ts');
        return convertNfsCommand(output, file);
      }),
    );

  program
    .command('completion')
    .description('print what a shell needs to complete these commands: source <(holdfast completion bash)')
    .addArgument(choice(new Argument('<SHELL>', 'the shell'), Object.keys(shells)))
    .action((shell: keyof typeof shells) => output.line(shells[shell](program)));

  // Typed by no one: how a command has the pools looked at by a process that may be left behind (src/cli/look/look.ts).
  program
    .command('look-at-pools', { hidden: true })
    .addArgument(new Argument('<WANTED>').choices(wantedDetails))
    .action((wanted: Wanted) =>
      look(async (config) => {
        const { lookerCommand } = await import('./look/looker.ts');
        return lookerCommand(config, wanted);
      }),
    );

  program.command('look-at-disks', { hidden: true }).action(() =>
    look(async (config) => {
      const { lookAtDisks } = await import('./disks.ts');
      return lookAtDisks(config);
    }),
  );

  return program;
}
