/** A row of a report: each field as LVM prints it. */
export type ReportRow = Readonly<Record<string, string>>;

/**
 * Reads the JSON that `lvm fullreport --reportformat json` prints, row by row, as it comes: a report of thousands of
 * volumes is never in memory as a whole. Knows nothing of how it is broken into lines. Between the rows LVM may say something
 * else (`Retrying metadata scan.`, while another command writes), which no parser of JSON takes.
 */
export class ReportReader {
  readonly #onRow: (section: string, row: ReportRow) => void;
  /** The open brackets, each with the key that it belongs to. */
  readonly #open: { readonly bracket: '{' | '['; readonly key: string }[] = [];
  #key = '';
  #string: string | undefined;
  #isEscaped = false;
  /** The row that is being read, as text. */
  #row: string | undefined;
  #isWhole = false;

  constructor(onRow: (section: string, row: ReportRow) => void) {
    this.#onRow = onRow;
  }

  /** True once the report has come to its end. */
  get isWhole(): boolean {
    return this.#isWhole;
  }

  read(text: string): void {
    for (const character of text) this.#take(character);
  }

  #take(character: string): void {
    if (this.#row !== undefined) this.#row += character;
    if (this.#string !== undefined) this.#takeInString(character, this.#string);
    else this.#takeOutside(character);
  }

  #takeOutside(character: string): void {
    switch (character) {
      case '"':
        this.#string = '';
        break;
      case '{':
      case '[':
        this.#open.push({ bracket: character, key: this.#key });
        if (character === '{' && this.#open.length === rowDepth) this.#row = '{';
        break;
      case '}':
      case ']':
        this.#close();
    }
  }

  #takeInString(character: string, string: string): void {
    if (this.#isEscaped || (character !== '"' && character !== '\\')) {
      this.#isEscaped = false;
      this.#string = string + character;
    } else if (character === '\\') {
      this.#isEscaped = true;
    } else {
      this.#key = string;
      this.#string = undefined;
    }
  }

  #close(): void {
    if (this.#open.length === rowDepth && this.#row !== undefined) {
      const section = this.#open.at(-2)?.key ?? '';
      this.#onRow(section, JSON.parse(this.#row));
      this.#row = undefined;
    }
    this.#open.pop();
    if (this.#open.length === 0) this.#isWhole = true;
  }
}

/** {"report": [ {"lv": [ {row} ] } ] } */
const rowDepth = 5;
