import { isIP } from 'node:net';
import { posix } from 'node:path';
import { type ReadValue, shown, WrongValue } from '../../../settings/section.ts';
import { text } from '../../../settings/values.ts';

/* Values that configurations and the contexts of volumes have. */

/** A server. */
export const host: ReadValue<string> = (value) => {
  const name = text(value);
  const bare = /^\[(.*)\]$/.exec(name)?.[1] ?? name;
  if (isIP(bare) !== 0 || /^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?$/.test(bare)) return bare;
  throw new WrongValue(`must be the name or the address of a server, such as nas.example.com, not ${shown(value)}`);
};

/** A path that leads nowhere else: no way out of the share can be written in it. */
export const pathInShare: ReadValue<string> = (value) => {
  const path = text(value);
  const names = path.split('/');
  const isRight = names.every((name) => name !== '' && name !== '.' && name !== '..' && !name.includes('\0'));
  if (isRight && posix.normalize(path) === path && Buffer.byteLength(path) <= 200) return path;
  throw new WrongValue(
    `must be a path in the share without '..' and a slash at its start or end, such as holdfast, not ${shown(value)}`,
  );
};

/** Octal, as csi-driver-nfs has it: 0 is for a mode that is left alone. */
export function mode(text: string): number | undefined {
  if (!/^0?[0-7]{1,4}$/.test(text)) throw new WrongValue('must be a mode in octal, such as 0777, or 0');
  const bits = Number.parseInt(text, 8);
  return bits === 0 ? undefined : bits;
}

/** An option as it stands after -o. */
export function asParameter(word: string): readonly [string] | readonly [string, string] {
  const equals = word.indexOf('=');
  return equals < 0 ? [word.trim()] : [word.slice(0, equals).trim(), word.slice(equals + 1).trim()];
}
