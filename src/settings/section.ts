import { nearest } from './nearest.ts';

/** One mistake in a file of settings: its place, by the keys that lead there, and the remedy. */
export interface Mistake {
  readonly path: readonly string[];
  readonly message: string;
}

/** A mistake in one value; the message continues after its key: `must be …`. */
export class WrongValue extends Error {
  /** The keys that lead on from there, if the value is a section and a part of it is wrong. */
  readonly below: readonly string[];

  constructor(message: string, below: readonly string[] = []) {
    super(message);
    this.below = below;
  }
}

/** Parses a text that is not in a file of settings. @param mistake makes the error; its words continue after the key */
export function parseText<T>(
  text: string | undefined,
  parse: (text: string) => T,
  mistake: (words: string) => Error,
): T | undefined {
  try {
    return text === undefined ? undefined : parse(text);
  } catch (error) {
    throw error instanceof WrongValue ? mistake(error.message) : error;
  }
}

/** Parses a value. @throws WrongValue */
export type ReadValue<T> = (value: unknown) => T;

/** A parser for each of several keys. */
export type KeyReaders = Readonly<Record<string, ReadValue<unknown>>>;

/** The values of several keys; undefined where a key is missing, or wrong. */
export type Given<Readers extends KeyReaders> = {
  readonly [Key in keyof Readers]: ReturnType<Readers[Key]> | undefined;
};

/** Reads a section key by key, and collects all mistakes instead of stopping at the first one. */
export class SectionReader {
  readonly #section: Readonly<Record<string, unknown>>;
  readonly #path: readonly string[];
  readonly #mistakes: Mistake[];

  constructor(value: unknown, path: readonly string[], mistakes: Mistake[]) {
    this.#path = path;
    this.#mistakes = mistakes;
    this.#section = isSection(value) ? value : {};
    if (value !== undefined && value !== null && !isSection(value)) {
      this.mistake([], `must be a section with keys and values, not ${shown(value)}`);
    }
  }

  /**
   * Reports all other keys as mistakes.
   * @param whose explains where a key that is unknown here belongs
   */
  refuseOthers(known: readonly string[], whose: (key: string) => string | undefined = () => undefined): void {
    for (const key of Object.keys(this.#section)) {
      if (known.includes(key)) continue;
      this.mistake([key], unknownKey(whose(key) ?? nearOf(key, known)));
    }
  }

  /** The key's value; undefined if it is missing, or wrong. */
  read<T>(key: string, readValue: ReadValue<T>): T | undefined {
    const value = Object.hasOwn(this.#section, key) ? this.#section[key] : undefined;
    if (value === undefined) return undefined;
    try {
      if (value === null) throw new WrongValue('has no value: write one, or leave the key out');
      return readValue(value);
    } catch (error) {
      if (!(error instanceof WrongValue)) throw error;
      this.mistake([key, ...error.below], error.message);
      return undefined;
    }
  }

  readAll<Readers extends KeyReaders>(readers: Readers): Given<Readers> {
    const entries = Object.entries(readers).map(([key, readValue]) => [key, this.read(key, readValue)]);
    return Object.fromEntries(entries);
  }

  /** Answers if the key is present, right or wrong. */
  has(key: string): boolean {
    return Object.hasOwn(this.#section, key);
  }

  /** The sections below a key, by their names; undefined if the key is missing. */
  sections(key: string): ReadonlyMap<string, unknown> | undefined {
    if (!this.has(key)) return undefined;
    const value = this.#section[key];
    if (value === null || isSection(value)) return new Map(Object.entries(value ?? {}));
    this.mistake([key], `must be a section with a key for each, not ${shown(value)}`);
    return undefined;
  }

  /** A reader for the section below a key; undefined if the key is missing. */
  below(key: string): SectionReader | undefined {
    return this.has(key) ? new SectionReader(this.#section[key], [...this.#path, key], this.#mistakes) : undefined;
  }

  mistake(below: readonly string[], message: string): void {
    this.#mistakes.push({ path: [...this.#path, ...below], message });
  }
}

/** Parses a section as one value: it may have these keys, and no others. */
export function sectionWith<Readers extends KeyReaders>(readers: Readers): ReadValue<Given<Readers>> {
  const known = Object.keys(readers);
  return (value) => {
    if (!isSection(value)) throw new WrongValue(`must be a section with ${known.join(', ')}, not ${shown(value)}`);
    const other = Object.keys(value).find((key) => !known.includes(key));
    if (other !== undefined) throw new WrongValue(unknownKey(nearOf(other, known)), [other]);
    const read = (key: string, readValue: ReadValue<unknown>): unknown => {
      try {
        return Object.hasOwn(value, key) ? readValue(value[key]) : undefined;
      } catch (error) {
        throw error instanceof WrongValue ? new WrongValue(error.message, [key, ...error.below]) : error;
      }
    };
    const entries = Object.entries(readers).map(([key, readValue]) => [key, read(key, readValue)]);
    return Object.fromEntries(entries);
  };
}

function unknownKey(hint: string): string {
  return `unknown key (${hint})`;
}

function nearOf(key: string, known: readonly string[]): string {
  const meant = nearest(key, known);
  return meant === undefined ? `known: ${known.join(', ')}` : `did you mean '${meant}'?`;
}

function isSection(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array);
}

const longestShown = 60;

/** Shows a value in a message. */
export function shown(value: unknown): string {
  if (value === null || value === undefined) return 'nothing';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object') return 'a section';
  const text = String(value);
  return `'${text.length > longestShown ? `${text.slice(0, longestShown)}…` : text}'`;
}
