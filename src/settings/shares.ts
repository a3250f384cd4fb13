import { isIP } from 'node:net';
import { posix } from 'node:path';
import { type ReadValue, shown, WrongValue } from './section.ts';
import { text } from './values.ts';

/* Servers, and paths in what they serve. */

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

/** The same for a directory that people write with slashes around it. Empty: all of the share. */
export const directoryInShare: ReadValue<string> = (value) => {
  const bare = text(value).replace(/^\/+|\/+$/g, '');
  return bare === '' ? '' : pathInShare(bare);
};

/** An option as it stands after -o. */
export function asParameter(word: string): readonly [string] | readonly [string, string] {
  const equals = word.indexOf('=');
  return equals < 0 ? [word.trim()] : [word.slice(0, equals).trim(), word.slice(equals + 1).trim()];
}
