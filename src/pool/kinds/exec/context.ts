import { z } from 'zod';
import { InvalidArgument } from '../../../volume/errors.ts';
import { parseInput } from '../../../volume/parse-input.ts';
import type { VolumeContext } from '../../node-side.ts';

/** The volume_context of a volume that a program makes reachable. */
export interface ExecContext {
  /** The name of the program in the configuration of the node: never its path. */
  readonly program: string;
  /** For the program; a device has the fsType of the PersistentVolume. */
  readonly fsType: string | undefined;
  readonly readOnly: boolean;
  /** For the program, by their names there. */
  readonly options: Readonly<Record<string, string>>;
}

export const execKeys = ['program', 'fsType', 'readOnly'] as const;

/** The start of keys for the program: `options.share` is its option `share`. */
export const optionPrefix = 'options.';

const word = z.string().regex(/^[A-Za-z0-9._-]{1,64}$/, { error: 'must be a word of at most 64 characters' });

const schema = z.strictObject({
  program: word,
  fsType: word.optional(),
  readOnly: z.enum(['true', 'false']).optional(),
});

/** @throws InvalidArgument that names the key */
export function readExecContext(context: VolumeContext): ExecContext {
  const isOption = (key: string) => key.startsWith(optionPrefix);
  const ofProgram = Object.entries(context).filter(([key]) => isOption(key));
  const own = Object.fromEntries(Object.entries(context).filter(([key]) => !isOption(key)));
  const parsed = parseInput(schema, own);
  if ('mistakes' in parsed) {
    throw new InvalidArgument(`volumeAttributes of an exec volume: ${parsed.mistakes.join('; ').replace(/\.$/, '')}.`);
  }
  const { fsType, program, readOnly } = parsed.data;
  const options = Object.fromEntries(ofProgram.map(([key, value]) => [key.slice(optionPrefix.length), value]));
  return { program, fsType, readOnly: readOnly === 'true', options };
}

/** Writes a context for `readExecContext`. */
export function writeExecContext(program: string, options: Readonly<Record<string, string>>): Record<string, string> {
  const prefixed = Object.entries(options).map(([key, value]) => [`${optionPrefix}${key}`, value]);
  return { program, ...Object.fromEntries(prefixed) };
}
