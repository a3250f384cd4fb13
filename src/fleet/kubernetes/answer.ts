import type { z } from 'zod';
import { Unavailable } from '../../volume/errors.ts';
import { inOneSentence, parseInput } from '../../volume/parse-input.ts';

/**
 * What Kubernetes answered, as far as we want it.
 * @throws Unavailable if it cannot be that: another program may stand before the API server
 */
export function readAnswer<T>(schema: z.ZodType<T>, answer: unknown, what: string): T {
  const parsed = parseInput(schema, answer);
  if ('data' in parsed) return parsed.data;
  throw new Unavailable(`Kubernetes was to ${what}, and its answer is none: ${inOneSentence(parsed.mistakes)}`);
}
