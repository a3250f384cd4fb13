/**
 * Makes a filesystem's messages (of an fs context, each `e`, `w` or `i`, a space and the text) safe to show: mount
 * options may be secrets (X02), and the kernel often repeats them.
 *
 * Everything in quotes is replaced; also every option, key and value in the given spelling, and every word that is a
 * part of one. If an option has a digit, all numbers are replaced, as the kernel may write a number differently. A
 * message may lose a harmless word by this; it still names the problem and the filesystem.
 */
export function safeWords(messages: readonly string[], options: readonly string[]): string | undefined {
  const texts = messages
    .filter((message) => /^[ew] /.test(message))
    .map((message) => redact(message.slice(2), options));
  return texts.length === 0 ? undefined : texts.join('; ');
}

const omitted = '…';

/**
 * All characters to replace are marked first. So one match does not hide half of another that overlaps with it, and a
 * replacement is not searched again.
 */
function redact(message: string, options: readonly string[]): string {
  const given = options.filter((option) => option !== '');
  const hasDigits = given.some((option) => /[0-9]/.test(option));
  const struck = new Set<number>();
  const strike = (from: number, length: number) => {
    for (let at = from; at < from + length; at++) struck.add(at);
  };

  for (const { 0: quoted, index } of message.matchAll(/(['"`]).*\1/gs)) strike(index + 1, quoted.length - 2);
  for (const option of given) {
    for (let at = message.indexOf(option); at !== -1; at = message.indexOf(option, at + 1)) strike(at, option.length);
  }
  // Splits into UTF-16 units, which the positions count.
  const left = () =>
    message
      .split('')
      .map((unit, at) => (struck.has(at) ? omitted : unit))
      .join('');
  for (const { 0: word, index } of left().matchAll(/[^\s\u2026'"`:;,()]+/g)) {
    const isPart = given.some((option) => option.includes(word));
    if (isPart || (hasDigits && /^[-+]?[0-9]/.test(word))) strike(index, word.length);
  }
  return left()
    .replace(/\u2026+/g, omitted)
    .trim();
}
