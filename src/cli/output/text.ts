/** Text for terminals. */

/** The characters that a terminal obeys instead of showing: control characters, and marks that reorder text. */
const control = /\p{Cc}|[\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;

/** `text` with everything that would move the cursor or change colours made visible; a volume's name may hold any. */
export function printable(text: string): string {
  return text.replace(control, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

const segmenter = new Intl.Segmenter('en', { granularity: 'grapheme' });
const wide =
  /\p{Emoji_Presentation}|\p{Script=Han}|\p{Script=Hiragana}|\p{Script=Katakana}|\p{Script=Hangul}|[\uff01-\uff60]/u;

/** Nearly all texts are ASCII, which is measured much faster. */
const plain = /^[\x20-\x7e]*$/;

/** The number of columns of a terminal that the text takes. */
export function columnsOf(text: string): number {
  if (plain.test(text)) return text.length;
  let columns = 0;
  for (const { segment } of segmenter.segment(text)) columns += wide.test(segment) ? 2 : 1;
  return columns;
}

/** In UTF-16: a letter with all its marks, or a family of emoji. */
const maxUnitsOfColumn = 16;

/** The text, cut to at most this many columns. */
export function shortened(text: string, maximumColumns: number): string {
  // To look at more of a text that may be of any length would take long.
  const start = text.slice(0, maximumColumns * maxUnitsOfColumn);
  if (start.length === text.length && columnsOf(text) <= maximumColumns) return text;
  let kept = '';
  let columns = 0;
  for (const { segment } of segmenter.segment(start)) {
    columns += columnsOf(segment);
    if (columns > maximumColumns - 1) break;
    kept += segment;
  }
  return `${kept}…`;
}

/** The text in lines of at most that many columns, broken between words; a longer word has a separate line. */
export function wrapped(text: string, maximumColumns: number): string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    const longer = line === '' ? word : `${line} ${word}`;
    if (line !== '' && columnsOf(longer) > maximumColumns) {
      lines.push(line);
      line = word;
    } else line = longer;
  }
  return [...lines, line];
}

const units = [
  ['d', 86_400],
  ['h', 3600],
  ['m', 60],
] as const;

/** The age in kubectl's format: `5s`, `12m`, `3h`, `40d`. */
export function age(createdAt: string, now: Date): string {
  const seconds = Math.max(0, Math.floor((now.getTime() - Date.parse(createdAt)) / 1000));
  const unit = units.find(([, length]) => seconds >= length);
  return unit === undefined ? `${seconds}s` : `${Math.floor(seconds / unit[1])}${unit[0]}`;
}
