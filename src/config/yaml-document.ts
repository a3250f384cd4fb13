import {
  type Document,
  type ErrorCode,
  isAlias,
  isMap,
  isPair,
  isScalar,
  LineCounter,
  type ParsedNode,
  parseDocument,
  visit,
  type YAMLError,
} from 'yaml';

/** A mistake with its position as editors show it: both count from 1. */
export interface PlacedProblem {
  readonly line: number;
  readonly column: number;
  readonly message: string;
}

/** A YAML text: its content, its mistakes as YAML, and the positions of its keys. */
export class YamlDocument {
  readonly problems: readonly PlacedProblem[];
  /** undefined if the mistakes leave the content uncertain. */
  readonly content: unknown;
  readonly #document: Document.Parsed<ParsedNode>;
  readonly #lines = new LineCounter();

  /** @param wordsBelow keys at the top: the keys below them are words, even those that look like numbers */
  constructor(text: string, wordsBelow: readonly string[] = []) {
    this.#document = parseDocument(text, {
      lineCounter: this.#lines,
      // Keeps sizes above 2^53 exact.
      intAsBigInt: true,
      // Allows `<<`, which YAML 1.2 has dropped but people still use.
      merge: true,
      uniqueKeys: isSameKey,
      prettyErrors: false,
    });
    takeAsWritten(this.#document, wordsBelow);
    const { errors, warnings } = this.#document;
    const found = onePerPlace([...errors, ...warnings]).map(({ code, pos }) => this.#at(pos[0], sentences[code]));
    const isReadable = errors.every(({ code }) => code === 'DUPLICATE_KEY');
    const { content, problem } = isReadable ? this.#read() : {};
    this.content = content;
    this.problems = problem === undefined ? found : [...found, problem];
  }

  /** Puts the problem at the key that the path leads to, or at the nearest existing section above. */
  place(path: readonly string[], message: string): PlacedProblem {
    return this.#at(this.#offsetOf(path), path.length === 0 ? message : `${path.map(readable).join('.')}: ${message}`);
  }

  #read(): { content?: unknown; problem?: PlacedProblem } {
    try {
      return { content: this.#document.toJS() ?? {} };
    } catch {
      // An alias without its anchor, inside its own anchor, or in excessive number.
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

  /** Follows aliases and merges to the text that they stand for. */
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

/** Treats 5 and "5" as the same key. */
function isSameKey(a: ParsedNode, b: ParsedNode): boolean {
  return isScalar(a) && isScalar(b) && (a.value === b.value || a.source === b.source);
}

/** Keeps keys as written: YAML reads 010, 0x1f and 1e3 as numbers, and would write them differently. */
function takeAsWritten(document: Document.Parsed<ParsedNode>, below: readonly string[]): void {
  visit(document, {
    Pair(_key, { key }, [, , above, , ...deeper]) {
      if (deeper.length > 0 || !isPair(above) || !isScalar(above.key) || !isScalar(key)) return;
      if (!below.includes(String(above.key.value)) || isMergeKey(key.value)) return;
      key.value = key.source ?? key.value;
    },
  });
}

/** Keeps one error for each position: the others follow from it. */
function onePerPlace(errors: readonly YAMLError[]): YAMLError[] {
  return [...new Map(errors.toReversed().map((error) => [error.pos[0], error])).values()].toReversed();
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

/** Sentences by the parser's codes: its own speak of its internals. */
const sentences: Readonly<Record<ErrorCode, string>> = {
  ALIAS_PROPS: 'an alias (*name) stands alone: no anchor or tag goes before it',
  BAD_ALIAS: 'has an alias (*) or anchor (&) without a name, or one that ends in a colon',
  BAD_COLLECTION_TYPE: tagless(),
  BAD_DIRECTIVE: 'is an unknown directive: remove the line that begins with %',
  BAD_DQ_ESCAPE: 'has a backslash that means nothing in "…": write it twice, or use single quotes',
  BAD_INDENT: 'is indented in a way that fits nothing above: keys of one section begin in one column',
  BAD_PROP_ORDER: 'has an anchor or tag before a key or dash: write it after',
  BAD_SCALAR_START: 'begins with a character that means something else in YAML: put it in quotes',
  BLOCK_AS_IMPLICIT_KEY: 'has a second key in one line: begin a new line, or put a value that has a colon in quotes',
  BLOCK_IN_FLOW: 'has separate lines inside { } or [ ]: separate the entries with commas',
  DUPLICATE_KEY: 'the key is given twice: keys of one section must be unique',
  IMPOSSIBLE: 'cannot be parsed: rewrite it as plain keys and values',
  KEY_OVER_1024_CHARS: 'has a key of more than 1024 characters: is a colon missing before?',
  MISSING_CHAR: 'lacks a closing quote, a colon, a comma or a blank: look at what comes just before',
  MULTILINE_IMPLICIT_KEY: 'has no colon after its key, or the key goes over several lines',
  MULTIPLE_ANCHORS: 'has two anchors (&name): one is enough',
  MULTIPLE_DOCS: 'the file has a second document: remove the --- line',
  MULTIPLE_TAGS: tagless(),
  NON_STRING_KEY: 'has a key that is a list or a section: a key is a word',
  RESOURCE_EXHAUSTION: 'is nested deeper than any configuration: write it with fewer levels',
  TAB_AS_INDENT: 'is indented with a tab: YAML wants spaces',
  TAG_RESOLVE_FAILED: tagless(),
  UNEXPECTED_TOKEN:
    'has a character that cannot be here, or lacks a closing bracket: put text with such characters in quotes',
};

function tagless(): string {
  return 'has a tag (!…) that means nothing here: remove it';
}

/** Quotes a key that would not stand out from the text around it: odd blanks, or several lines. */
function readable(key: string): string {
  return /^[^\p{C}\p{Z}]+( [^\p{C}\p{Z}]+)*$/u.test(key) ? key : JSON.stringify(key);
}
