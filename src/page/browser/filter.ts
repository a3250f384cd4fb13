/** Answers if all words are in one of the texts each, in any case. */
export function matcher(query: string): (texts: readonly (string | undefined)[]) => boolean {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return () => true;
  return (texts) => {
    const all = texts.join('\n').toLowerCase();
    return words.every((word) => all.includes(word));
  };
}

/** Values of a filter, sorted, each once. */
export function choicesOf(values: Iterable<string | undefined>): string[] {
  const all = new Set<string>();
  for (const value of values) if (value !== undefined) all.add(value);
  return [...all].sort();
}
