import type { z } from 'zod';
import { Unavailable } from '../../volume/errors.ts';
import { inOneSentence, parseInput } from '../../volume/parse-input.ts';

/**
 * Parses an answer of Kubernetes; unknown fields are ignored.
 * @throws Unavailable if it does not fit: another program may stand before the API server
 */
export function readAnswer<T>(schema: z.ZodType<T>, answer: unknown, what: string): T {
  const parsed = parseInput(schema, answer);
  if ('data' in parsed) return parsed.data;
  throw new Unavailable(
    `Kubernetes was asked to ${what}, and its answer is invalid: ${inOneSentence(parsed.mistakes)}`,
  );
}
