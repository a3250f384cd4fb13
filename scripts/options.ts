import { type ParseArgsConfig, parseArgs } from 'node:util';

/** What a script can be told behind `--`, and how it says that. */
export class Usage {
  readonly #text: string;

  /** @param text how to type it, and a line for each option */
  constructor(text: string) {
    this.#text = text.trimEnd();
  }

  /** What was typed. With `--help` it prints the usage, and the script ends with 0; with a mistake, with 2. */
  read<const T extends ParseArgsConfig>(config: T): ReturnType<typeof parseArgs<T>> {
    if (process.argv.slice(2).some((argument) => argument === '--help' || argument === '-h')) {
      console.log(this.#text);
      process.exit(0);
    }
    try {
      return parseArgs(config);
    } catch (error) {
      if (error instanceof TypeError) this.refuse(error.message.replace(/\. .*/s, ''));
      throw error;
    }
  }

  /** @returns a whole number, at least 0 */
  wholeNumber(option: string, text: string): number {
    if (!/^[0-9]{1,10}$/.test(text))
      this.refuse(`--${option} wants a whole number, and ${JSON.stringify(text)} is none`);
    return Number(text);
  }

  /** Refuses the words that name nothing, also beside others that do: a run of a part would look like a success. */
  requireKnown(words: readonly string[], isKnown: (word: string) => boolean, problem: string): void {
    const unknown = words.filter((word) => !isKnown(word));
    if (unknown.length > 0) this.refuse(`${problem}: ${unknown.join(', ')}`);
  }

  /** Ends the script with 2 before it has done anything: the command line has a mistake. */
  refuse(problem: string): never {
    console.error(`${problem}\n\n${this.#text}`);
    process.exit(2);
  }
}
