import { type Argument, type Command, InvalidArgumentError, type Option } from 'commander';
import { didYouMean } from '../settings/nearest.ts';

/** Arguments and flags that several commands take. */

export interface Flags {
  readonly json?: true;
}

export const aVolume = "a volume: its id, its name, or its claim's NAMESPACE/NAME";

export function forPrograms(command: Command): Command {
  return command.option('--json', 'print JSON, for programs (docs/json.md)');
}

/** Options of a command with a table, for programs and for people. */
export function forBoth(command: Command): Command {
  return forPrograms(command).option('--wide', 'all columns, also where the terminal is narrower');
}

/** For a subcommand: the flag may stand before or after its name. */
export function wantsJson(command: Command): boolean {
  return command.optsWithGlobals()['json'] === true;
}

export function choice<Kind extends Argument | Option>(of: Kind, allowed: readonly string[]): Kind {
  of.choices(allowed).argParser((value: string) => {
    if (allowed.includes(value)) return value;
    throw new InvalidArgumentError(`It can be ${allowed.join(' or ')}${didYouMean(value, allowed)}.`);
  });
  return of;
}

export function portIn(text: string): number {
  if (/^[0-9]{1,5}$/.test(text) && Number(text) <= 65_535) return Number(text);
  throw new InvalidArgumentError('It must be a port, from 0 to 65535.');
}
