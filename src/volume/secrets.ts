import { inspect } from 'node:util';

/**
 * The secrets of a call. Only `get` reveals them: JSON, the console and copies of an object that contains this do not
 * show them (X01).
 */
export class Secrets {
  readonly #values: ReadonlyMap<string, string>;

  constructor(values: Readonly<Record<string, string>>) {
    this.#values = new Map(Object.entries(values));
  }

  get(name: string): string | undefined {
    return this.#values.get(name);
  }

  /** The names of the fields, which are not secret. */
  names(): readonly string[] {
    return [...this.#values.keys()];
  }

  /** The same for a part of the driver that must not have some of them. */
  without(names: readonly string[]): Secrets {
    return new Secrets(Object.fromEntries([...this.#values].filter(([name]) => !names.includes(name))));
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
