import type { Command } from 'commander';
import { aVolume, type Flags, forPrograms, wantsJson } from './arguments.ts';
import type { Runner } from './program.ts';

/** The commands that have the running driver change something. */
export function addChanges(program: Command, runner: Pick<Runner, 'look' | 'output'>): void {
  addTrash(program, runner);
  addAdoption(program, runner);
  addMoves(program, runner);
}

const lostNodeIs = 'the other node of its move, which never comes back: the copy there must never be used again';

interface LostFlags {
  readonly nodeIsLost?: string;
}

interface LostEndFlags extends LostFlags {
  readonly poolIsLost?: string;
}

function addTrash(program: Command, { look, output }: Pick<Runner, 'look' | 'output'>): void {
  const trash = forPrograms(program.command('trash'))
    .description('show deleted volumes that can be brought back; the driver must run')
    .action((options: Flags) =>
      look(async (config) => {
        const { trashCommand } = await import('./trash.ts');
        return trashCommand(config, output, { json: options.json === true });
      }),
    );

  forPrograms(trash.command('restore'))
    .description('bring a deleted volume back, as it was')
    .argument('<VOLUME>', aVolume)
    .option('--node-is-lost <NODE>', lostNodeIs)
    .option('--pool-is-lost <POOL>', 'the pool that it has moved to: its disk is lost, and in no other node')
    .option('--even-so', 'also an earlier copy: than the one that went to the lost end, or a later one was deleted')
    .action((wanted: string, flags: FinishFlags, command: Command) =>
      look(async (config) => {
        const { evenSo, nodeIsLost: lostNode, poolIsLost: lostPool } = flags;
        const { restoreCommand } = await import('./trash.ts');
        const words = { lostNode, lostPool, isEvenSo: evenSo === true };
        return restoreCommand(config, output, { wanted, ...words, json: wantsJson(command) });
      }),
    );

  forPrograms(trash.command('purge'))
    .description('remove a deleted volume permanently, or all of them')
    .argument('[VOLUME]', `${aVolume}; without one, everything in the trash goes`)
    .option('--yes', 'do not ask')
    .action((wanted: string | undefined, options: { yes?: true }, command: Command) =>
      look(async (config) => {
        const { purgeCommand } = await import('./trash.ts');
        return purgeCommand(config, output, { wanted, json: wantsJson(command), yes: options.yes === true });
      }),
    );
}

interface AdoptFlags extends Flags {
  readonly claim: string;
  readonly storageClass?: string;
  readonly name?: string;
  readonly pool: string;
  readonly retain?: true;
  readonly size?: string;
}

function addAdoption(program: Command, { look, output }: Pick<Runner, 'look' | 'output'>): void {
  forPrograms(program.command('adopt'))
    .description('make a volume of what lies at a path, and print its PersistentVolume; the driver must run')
    .argument(
      '<PATH>',
      "a directory on the pool's own filesystem, a logical volume of its group (/dev/GROUP/NAME), or the disk or partition of the pool; not in use",
    )
    .requiredOption('--pool <POOL>', 'the pool to put it in')
    .requiredOption('--claim <NAMESPACE/NAME>', 'the PersistentVolumeClaim that will use it')
    .option('--size <SIZE>', 'such as 10Gi; without it, half as much again as it takes now, in whole GiB')
    .option('--class, --storage-class <NAME>', 'the storage class that the claim names')
    .option('--retain', 'keep the volume when the claim is deleted')
    .option('--name <NAME>', "the volume's own name; without it, it follows from the claim")
    .action((path: string, options: AdoptFlags) =>
      look(async (config) => {
        const { adoptCommand } = await import('./adopt.ts');
        const { claim, json, name, pool, retain, size, storageClass } = options;
        const reclaimPolicy = retain === true ? 'Retain' : 'Delete';
        const wishes = { path, pool, claim, name, size, reclaimPolicy, storageClass } as const;
        return adoptCommand(config, output, { ...wishes, json: json === true });
      }),
    );

  forPrograms(program.command('release'))
    .description(
      'give an adopted volume back: it becomes the directory, logical volume or disk that it was; the driver must run',
    )
    .argument('<VOLUME>', aVolume)
    .option('--to <PATH>', 'where to put the data; without it, where it was before')
    .action((wanted: string, options: Flags & { to?: string }) =>
      look(async (config) => {
        const { releaseCommand } = await import('./adopt.ts');
        return releaseCommand(config, output, { wanted, json: options.json === true, to: options.to });
      }),
    );
}

interface FinishFlags extends LostEndFlags {
  readonly evenSo?: true;
}

interface MoveFlags extends Flags {
  readonly dryRun?: true;
  readonly limit?: string;
  readonly toPool?: string;
  readonly wait?: true;
  readonly withSnapshots?: true;
}

function addMoves(program: Command, { look, output }: Pick<Runner, 'look' | 'output'>): void {
  const move = forPrograms(program.command('move'))
    .description('move a volume to another pool of this node, with its data; the driver must run')
    .argument('<VOLUME>', aVolume)
    .option('--to-pool <POOL>', 'the pool to move it to')
    .option('--with-snapshots', 'its snapshots follow it, or go where it is by now')
    .option('--dry-run', 'only show what would be moved, and how')
    .option('--limit <SIZE>', 'copy no more than this in a second, such as 100Mi')
    .option('--wait', 'wait until it has ended, also where there is no terminal')
    .action((wanted: string, { dryRun, json, limit, toPool = '', wait, withSnapshots }: MoveFlags) =>
      look(async (config) => {
        const { moveCommand } = await import('./move.ts');
        const flags = { dryRun: dryRun === true, json: json === true, wait: wait === true };
        const order = { wanted, to: toPool, limit, withSnapshots: withSnapshots === true };
        return moveCommand(config, output, { ...order, ...flags });
      }),
    );

  forPrograms(move.command('status'))
    .description('show the moves of this node, running and ended')
    .argument('[VOLUME]', aVolume)
    .action((wanted: string | undefined, _options: object, command: Command) =>
      look(async (config) => {
        const { moveStatusCommand } = await import('./move.ts');
        return moveStatusCommand(config, output, { wanted, json: wantsJson(command) });
      }),
    );

  forPrograms(move.command('cancel'))
    .description('give a move up: the volume stays where it is, and nothing of the copy is left')
    .argument('<VOLUME>', aVolume)
    .option('--node-is-lost <NODE>', lostNodeIs)
    .option(
      '--even-so',
      'although the copy that has come may be the last one: it is removed, and an earlier one becomes the volume',
    )
    .action((wanted: string, { evenSo, nodeIsLost: lostNode }: FinishFlags, command: Command) =>
      look(async (config) => {
        const { cancelMoveCommand } = await import('./move.ts');
        return cancelMoveCommand(config, output, { wanted, lostNode, evenSo, json: wantsJson(command) });
      }),
    );

  forPrograms(move.command('finish'))
    .description(
      'make the copy of a volume that was moving here the volume, as the node or the pool that it leaves is lost',
    )
    .argument('<VOLUME>', aVolume)
    .option('--pool-is-lost <POOL>', 'the pool of this node that it leaves')
    .option(
      '--node-is-lost <NODE>',
      'the node that it leaves, which never comes back: the copy there must never be used again',
    )
    .option('--even-so', 'although it could be used there since it was copied: all that was written then is lost')
    .action((wanted: string, flags: FinishFlags, command: Command) =>
      look(async (config) => {
        const { evenSo, nodeIsLost: lostNode, poolIsLost: lostPool } = flags;
        const { finishMoveCommand } = await import('./move.ts');
        const lost = { lostNode, lostPool, evenSo: evenSo === true };
        return finishMoveCommand(config, output, { wanted, ...lost, json: wantsJson(command) });
      }),
    );
}
