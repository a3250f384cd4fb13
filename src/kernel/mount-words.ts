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

function redact(message: string, options: readonly string[]): string {
  const given = options.filter((option) => option !== '').sort((a, b) => b.length - a.length);
  let text = message.trim().replace(/(['"`]).*\1/gs, `'${omitted}'`);
  for (const option of given) text = text.replaceAll(option, omitted);
  const hasDigits = given.some((option) => /[0-9]/.test(option));
  return text.replace(/[^\s…':;,()]+/g, (word) => {
    const isPart = given.some((option) => option.includes(word));
    return isPart || (hasDigits && /^[-+]?[0-9]/.test(word)) ? omitted : word;
  });
}
