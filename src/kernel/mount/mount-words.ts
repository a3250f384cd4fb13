/**
 * What a filesystem said while it was set up (messages of an fs context, each `e`, `w` or `i`, a space and the text),
 * made safe to show: mount options may be secrets (X02), and the kernel likes to repeat them.
 *
 * Whatever is in quotes goes; so does every option, key and value as it was given, and every word of the kernel's that
 * is a part of one. Where an option has a digit in it all numbers go, as the kernel may have written it another way.
 * A message may lose an innocent word by this; it keeps enough to say what is wrong with which filesystem.
 */
export function safeWords(messages: readonly string[], options: readonly string[]): string | undefined {
  const texts = messages
    .filter((message) => /^[ew] /.test(message))
    .map((message) => redact(message.slice(2), options));
  return texts.length === 0 ? undefined : texts.join('; ');
}

const omitted = '…';

/**
 * Characters are struck out where they stand, and only then replaced: what goes first does not hide the half of another
 * option that overlaps with it, and what is written in place of one is not read again.
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
  // By units of UTF-16, as the places are.
  const left = () =>
    message
      .split('')
      .map((unit, at) => (struck.has(at) ? omitted : unit))
      .join('');
  for (const { 0: word, index } of left().matchAll(/[^\s…'"`:;,()]+/g)) {
    const isPart = given.some((option) => option.includes(word));
    if (isPart || (hasDigits && /^[-+]?[0-9]/.test(word))) strike(index, word.length);
  }
  return left().replace(/…+/g, omitted).trim();
}
