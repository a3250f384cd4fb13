import { createInterface } from 'node:readline/promises';
import { AdminClient } from '../admin/client.ts';
import type { Purged, Restored, TrashedVolumeSight, TrashList } from '../admin/protocol.ts';
import type { Config } from '../config/config.ts';
import { parseVolumeId } from '../volume/id.ts';
import { formatBytes } from '../volume/size.ts';
import { findVolume } from './look/find-volume.ts';
import { exitCodes, type Output, type ProblemCode, toJson } from './output/output.ts';
import { printTable } from './output/table.ts';
import { trashColumns, trashRow } from './output/tables/trash.ts';
import { printable } from './output/text.ts';

/** `holdfast trash`: the deleted volumes that can be brought back. */
export async function trashCommand(config: Config, output: Output, options: { json: boolean }): Promise<number> {
  const list = await new AdminClient(config.adminSocketPath).listTrash();
  if (options.json) output.line(toJson<'trash'>(list));
  else printTable(output, trashColumns, { rows: rowsOf(list), none: 'The trash is empty.' });
  if (!options.json) for (const problem of list.problems) output.problem('UNAVAILABLE', problem);
  return list.problems.length > 0 ? exitCodes.failed : exitCodes.ok;
}

function rowsOf({ volumes }: TrashList): string[][] {
  const now = new Date();
  return volumes.map((volume) => trashRow(volume, now));
}

/** `holdfast trash restore VOLUME`: brings a deleted volume back, as it was. */
export async function restoreCommand(
  config: Config,
  output: Output,
  {
    wanted,
    json,
    ...words
  }: {
    wanted: string;
    lostNode?: string | undefined;
    lostPool?: string | undefined;
    isEvenSo?: boolean;
    json: boolean;
  },
): Promise<number> {
  const client = new AdminClient(config.adminSocketPath);
  const restored = await client.restore(await idOf(client, wanted), words);
  printRestored(output, restored, json);
  return exitCodes.ok;
}

export function printRestored(output: Output, restored: Restored, json: boolean): void {
  if (json) {
    output.line(toJson<'trash restore'>(restored));
    return;
  }
  output.line(`${restored.id} (${printable(restored.name)}) is back in pool ${restored.pool}.`);
  if (restored.problem !== undefined) output.problem('WARNING', restored.problem);
  output.line(
    `If its PersistentVolume is gone too: holdfast export ${restored.id} --storage-class CLASS | kubectl create -f -`,
  );
}

export function printPurged(output: Output, { ids }: Purged, json: boolean): void {
  if (json) output.line(toJson<'trash purge'>({ ids }));
  else if (ids.length === 0) output.line('The trash is empty.');
  else for (const purged of ids) output.line(`${purged} is permanently removed.`);
}

/** `holdfast trash purge [VOLUME]`: ends the time in the trash, of one volume or of all. */
export async function purgeCommand(
  config: Config,
  output: Output,
  { wanted, json, yes }: { wanted: string | undefined; json: boolean; yes: boolean },
): Promise<number> {
  const client = new AdminClient(config.adminSocketPath);
  if (wanted === undefined && !yes) {
    const { volumes } = await client.listTrash();
    const refusal = volumes.length === 0 ? undefined : await refusalOf(volumes);
    if (refusal !== undefined) {
      output.problem(refusal.code, refusal.message);
      return refusal.exitCode;
    }
  }
  printPurged(output, await client.purge(wanted === undefined ? undefined : await idOf(client, wanted)), json);
  return exitCodes.ok;
}

async function refusalOf(
  volumes: readonly TrashedVolumeSight[],
): Promise<{ code: ProblemCode; message: string; exitCode: number } | undefined> {
  const usedBytes = volumes.reduce((sum, volume) => sum + BigInt(volume.usedBytes), 0n);
  const what = volumes.length === 1 ? '1 deleted volume' : `${volumes.length} deleted volumes`;
  const answer = await confirm(`Purge ${what} (${formatBytes(usedBytes)}) permanently?`);
  if (answer === true) return undefined;
  return answer === false
    ? { code: 'ABORTED', message: 'nothing was purged', exitCode: exitCodes.failed }
    : {
        code: 'INVALID_ARGUMENT',
        message: 'to purge everything without being asked, add --yes',
        exitCode: exitCodes.usage,
      };
}

/** One id can have been deleted several times; all of them are meant. */
async function idOf(client: AdminClient, wanted: string): Promise<string> {
  if (parseVolumeId(wanted) !== undefined) return wanted;
  const { problems, volumes } = await client.listTrash();
  const where = problems.length === 0 ? 'in the trash of this node' : `in the trash (${problems.join(' ')})`;
  return findVolume([...new Map(volumes.map((volume) => [volume.id, volume])).values()], wanted, where).id;
}

/** Asks the person at the terminal; undefined if there is none. Anything but a yes is a no. */
async function confirm(question: string): Promise<boolean | undefined> {
  if (process.stdin.isTTY !== true || process.stderr.isTTY !== true) return undefined;
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    // Ctrl-D and Ctrl-C end the input without an answer.
    const closed = new Promise<string>((resolve) => terminal.once('close', () => resolve('')));
    const answer = await Promise.race([terminal.question(`${question} [y/N] `), closed]);
    return /^y(es)?$/i.test(answer.trim());
  } finally {
    terminal.close();
  }
}
