import { type Document, isAlias, isMap, isScalar, LineCounter, type ParsedNode, parseDocument, visit } from 'yaml';

/** One mistake, with its place as an editor shows it: both count from 1. */
export interface PlacedProblem {
  readonly line: number;
  readonly column: number;
  readonly message: string;
}

/** A YAML text: what it says, what is wrong with it as YAML, and where its keys are. */
export class YamlDocument {
  readonly problems: readonly PlacedProblem[];
  /** undefined if the text is so wrong that it says nothing for sure. */
  readonly content: unknown;
  readonly #document: Document.Parsed<ParsedNode>;
  readonly #lines = new LineCounter();

  constructor(text: string) {
    this.#document = parseDocument(text, {
      lineCounter: this.#lines,
      // Sizes above 2^53 stay exact.
      intAsBigInt: true,
      // `<<`, which YAML 1.2 has dropped and everybody uses.
      merge: true,
      prettyErrors: false,
    });
    const { errors, warnings } = this.#document;
    const found = [...errors, ...warnings].map(({ code, message, pos }) => this.#at(pos[0], sentenceOf(code, message)));
    const isReadable = errors.every(({ code }) => code === 'DUPLICATE_KEY');
    const { content, problem } = isReadable ? this.#read() : {};
    this.content = content;
    this.problems = problem === undefined ? found : [...found, problem];
  }

  /** The problem, at the key that the path leads to; at the nearest section above if it is not there. */
  place(path: readonly string[], message: string): PlacedProblem {
    return this.#at(this.#offsetOf(path), path.length === 0 ? message : `${path.map(readable).join('.')}: ${message}`);
  }

  #read(): { content?: unknown; problem?: PlacedProblem } {
    try {
      return { content: this.#document.toJS() ?? {} };
    } catch {
      // An alias without its anchor, one inside of what it stands for, or far too many.
      const message = 'an alias (*name) must name an anchor (&name) before it, and no more than some hundred values';
      return { problem: this.#at(firstAlias(this.#document), message) };
    }
  }

  #offsetOf(path: readonly string[]): number {
    let node: unknown = this.#document.contents;
    let offset = 0;
    for (const name of path) {
      const pair = this.#pairOf(node, name);
      if (pair === undefined) return offset;
      offset = isScalar(pair.key) ? (pair.key.range?.[0] ?? offset) : offset;
      node = pair.value;
    }
    return offset;
  }

  /** What came by an alias, or was merged in, is where it was written. */
  #pairOf(node: unknown, name: string, depth = 0): { readonly key: unknown; readonly value: unknown } | undefined {
    const map = isAlias(node) ? node.resolve(this.#document) : node;
    if (!isMap(map) || depth > 16) return undefined;
    const keyOf = ({ key }: { readonly key: unknown }) => (isScalar(key) ? String(key.value) : undefined);
    const own = map.items.find((pair) => keyOf(pair) === name);
    if (own !== undefined) return own;
    for (const pair of map.items.filter(({ key }) => isScalar(key) && isMergeKey(key.value))) {
      const merged = this.#pairOf(pair.value, name, depth + 1);
      if (merged !== undefined) return merged;
    }
    return undefined;
  }

  #at(offset: number, message: string): PlacedProblem {
    const { line, col } = this.#lines.linePos(offset);
    // An empty text has no first line.
    return { line: Math.max(line, 1), column: Math.max(col, 1), message };
  }
}

function isMergeKey(value: unknown): boolean {
  return value === '<<' || (typeof value === 'symbol' && value.description === '<<');
}

function firstAlias(document: Document): number {
  let offset = 0;
  visit(document, {
    Alias(_key, alias) {
      offset = alias.range?.[0] ?? 0;
      return visit.BREAK;
    },
  });
  return offset;
}

/** The parser's words speak of its own parts. */
const sentences: Readonly<Record<string, string>> = {
  BAD_INDENT: 'is indented in a way that fits nothing above: keys of one section begin in one column',
  BAD_SCALAR_START: 'begins with a character that means something else in YAML: put it in quotes',
  BLOCK_AS_IMPLICIT_KEY: 'has a second key in one line: begin a new line, or put a value that has a colon in quotes',
  DUPLICATE_KEY: 'the key is given twice: keys of one section must be unique',
  MULTILINE_IMPLICIT_KEY: 'has no colon after its key, or the key goes over several lines',
  MULTIPLE_DOCS: 'the file has a second document: remove the --- line',
  TAB_AS_INDENT: 'is indented with a tab: YAML wants spaces',
  TAG_RESOLVE_FAILED: 'has a tag (!…) that means nothing here: remove it',
};

function sentenceOf(code: string, message: string): string {
  return (
    sentences[code] ??
    `is no YAML: ${message.replaceAll(/\s+/g, ' ').replace(/^[A-Z]/, (letter) => letter.toLowerCase())}`
  );
}

/** A key as it is, unless it could not be told from what is around it: blanks, or several lines. */
function readable(key: string): string {
  return /^[^\p{C}\p{Z}]+( [^\p{C}\p{Z}]+)*$/u.test(key) ? key : JSON.stringify(key);
}
