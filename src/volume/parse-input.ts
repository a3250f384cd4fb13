import type { z } from 'zod';

/*
 * The one way to check input against a schema: a record on disk, an answer, a request. Mistakes are reported in our own
 * words: those of the library speak of its internals.
 */

export type ParsedInput<T> = { readonly data: T } | { readonly mistakes: readonly string[] };

/** @returns the parsed value, or each mistake as a sentence with its place: `source.type: must be …` */
export function parseInput<T>(schema: z.ZodType<T>, input: unknown): ParsedInput<T> {
  const parsed = schema.safeParse(input, { error: (issue) => wordsOf(issue) });
  if (parsed.success) return { data: parsed.data };
  return {
    // A message that a schema of ours sets is a whole sentence.
    mistakes: parsed.error.issues.map(({ code, message, path }) =>
      code === 'custom' || path.length === 0 ? message : `${path.map(String).join('.')}: ${message}`,
    ),
  };
}

/** The same for JSON text. */
export function parseJsonInput<T>(schema: z.ZodType<T>, text: string): ParsedInput<T> {
  let input: unknown;
  try {
    input = JSON.parse(text);
  } catch {
    return { mistakes: ['it is no JSON, or not all of it'] };
  }
  return parseInput(schema, input);
}

const mistakesShown = 2;

/** All mistakes in one sentence, which is kept short. */
export function inOneSentence(mistakes: readonly string[]): string {
  const shown = mistakes.slice(0, mistakesShown).join('; ');
  const left = mistakes.length - mistakesShown;
  return left > 0 ? `${shown}; and ${left} more` : shown;
}

/** An issue of zod, before zod makes a sentence of it. */
type Issue = Parameters<z.core.$ZodErrorMap>[0];

function wordsOf(issue: Issue): string {
  const { input } = issue;
  if (input === undefined && issue.code !== 'unrecognized_keys') return 'is missing';
  switch (issue.code) {
    case 'invalid_type':
      return `must be ${kinds[issue.expected] ?? 'something else'}, not ${shown(input)}`;
    case 'invalid_value':
      return `must be ${listed(issue.values.map(String))}, not ${shown(input)}`;
    case 'invalid_format':
      return `must be ${formats[issue.format] ?? 'written in another form'}, not ${shown(input)}`;
    case 'too_small':
      return `must be ${issue.inclusive === false ? 'more than' : 'at least'} ${issue.minimum}, not ${shown(input)}`;
    case 'too_big':
      return `must be ${issue.inclusive === false ? 'less than' : 'at most'} ${issue.maximum}, not ${shown(input)}`;
    case 'unrecognized_keys':
      return `has unknown keys: ${issue.keys.map((key) => shown(key)).join(', ')}`;
    case 'invalid_union':
      return issue.discriminator === undefined
        ? `cannot be ${shown(input)}`
        : `cannot be ${shown(Object(input)[issue.discriminator])}`;
    default:
      return `cannot be ${shown(input)}`;
  }
}

const kinds: Readonly<Record<string, string>> = {
  string: 'text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  record: 'an object',
};

const formats: Readonly<Record<string, string>> = {
  datetime: 'a time such as 2026-01-31T12:00:00Z',
  uuid: 'a UUID',
  regex: 'written in another form',
};

function listed(values: readonly string[]): string {
  return values.length === 1 ? `${values[0]}` : `one of ${values.join(', ')}`;
}

const longestShown = 40;

function shown(value: unknown): string {
  if (value === null) return 'null';
  if (value === undefined) return 'missing';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object') return 'an object';
  if (typeof value !== 'string') return String(value);
  return `'${value.length > longestShown ? `${value.slice(0, longestShown)}…` : value}'`;
}
