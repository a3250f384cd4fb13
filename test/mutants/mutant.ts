/** A change of the source that takes a safeguard away. The named test must notice. */
export interface Mutant {
  /** What is taken away, as a row of the table in test/mutants/mutants.md. */
  readonly name: string;
  /** Below the project's directory. */
  readonly file: string;
  /** Stands in the file exactly once. */
  readonly text: string;
  readonly replacement: string;
  /** The test file that must fail; it is run alone. */
  readonly killer: string;
  /** A pattern for `--test-name-pattern`, where the whole file would take long. */
  readonly only?: string;
}

/** The file's source with the mutation in it. @throws if the text is not there, or there more than once */
export function mutate(source: string, { file, name, replacement, text }: Mutant): string {
  const places = source.split(text).length - 1;
  if (places !== 1) throw new Error(`mutant '${name}': its text is ${places} times in ${file}, not once:\n${text}`);
  // As a function: `$` means nothing in it.
  return source.replace(text, () => replacement);
}
