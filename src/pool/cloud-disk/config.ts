import { type ReadValue, type SectionReader, shown, WrongValue } from '../../settings/section.ts';
import { isSafe } from './http.ts';

/** @throws WrongValue if it cannot be a label in every cloud */
export function poolId(value: unknown): string {
  if (typeof value === 'string' && /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(value)) return value;
  throw new WrongValue(`must be 1 to 63 lower-case letters, digits and inner dashes, not ${shown(value)}`);
}

export function requirePoolId(section: SectionReader, place: string): void {
  if (section.has('poolId')) return;
  section.mistake([], `needs a poolId: a name for it that no other pool in the ${place} has, such as prod-eu`);
}

/** The address of an API. @param example for messages */
export function endpointLike(example: string): ReadValue<URL> {
  return (value) => {
    if (typeof value === 'string' && URL.canParse(value) && isSafe(new URL(value))) return new URL(value);
    throw new WrongValue(`must be an address such as ${example}, not ${shown(value)}`);
  };
}

/** Texts by their names, for what a cloud shows beside a disk. @param check throws WrongValue */
export function textsBy(
  noun: string,
  check: (name: string, text: string) => void,
): ReadValue<Readonly<Record<string, string>>> {
  return (value) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      throw new WrongValue(`must be a section with a text for each ${noun}, not ${shown(value)}`);
    }
    const entries = Object.entries(value).map(([name, text]: [string, unknown]): [string, string] => {
      if (typeof text !== 'string') throw new WrongValue(`must be text, not ${shown(text)}: put it in quotes`, [name]);
      check(name, text);
      return [name, text];
    });
    if (entries.length > 20) throw new WrongValue(`has more than 20 ${noun}s`);
    return Object.fromEntries(entries);
  };
}
