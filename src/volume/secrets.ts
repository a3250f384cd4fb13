import { inspect } from 'node:util';

/**
 * The secrets that came with a call. What is in here leaves by `get` alone: neither JSON nor the console shows it, and no
 * copy of an object that has it does (X01).
 */
export class Secrets {
  readonly #values: ReadonlyMap<string, string>;

  constructor(values: Readonly<Record<string, string>>) {
    this.#values = new Map(Object.entries(values));
  }

  get(name: string): string | undefined {
    return this.#values.get(name);
  }

  /** What its fields are called. Names are not secret. */
  names(): readonly string[] {
    return [...this.#values.keys()];
  }

  toJSON(): undefined {
    return undefined;
  }

  toString(): string {
    return '[secrets]';
  }

  [inspect.custom](): string {
    return '[secrets]';
  }
}
