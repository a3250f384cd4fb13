import { z } from 'zod';
import { parseInput, parseJsonInput } from '../../../volume/parse-input.ts';

/** A program's answer. */
export interface Answer {
  readonly status: 'Success' | 'Failure' | 'Not supported';
  readonly message: string;
  readonly device: string | undefined;
  readonly attached: boolean | undefined;
  readonly capabilities: Readonly<Record<string, boolean>>;
  /** All of it, for the verbs that answer more. */
  readonly fields: Readonly<Record<string, unknown>>;
}

const schema = z.looseObject({
  status: z.enum(['Success', 'Failure', 'Not supported']),
  message: z.string().max(4096).optional(),
  device: z.string().max(4096).optional(),
  attached: z.boolean().optional(),
  // Ignored: Kubernetes, too, takes the name of the PersistentVolume.
  volumename: z.string().optional(),
  capabilities: z.record(z.string(), z.unknown()).optional(),
});

/**
 * Reads an answer: one JSON object, with keys in any case, as the kubelet read them.
 * @returns undefined: it is none
 */
export function parseAnswer(text: string): Answer | undefined {
  const parsed = parseJsonInput(z.record(z.string(), z.unknown()), text);
  if ('mistakes' in parsed) return undefined;
  const lowered = Object.fromEntries(Object.entries(parsed.data).map(([key, value]) => [key.toLowerCase(), value]));
  const answer = parseInput(schema, lowered);
  if ('mistakes' in answer) return undefined;
  const { attached, capabilities = {}, device, message = '', status } = answer.data;
  const flags = Object.entries(capabilities).flatMap(([key, value]) =>
    typeof value === 'boolean' ? [[key.toLowerCase(), value] as const] : [],
  );
  const named = device === undefined || device === '' ? undefined : device;
  return { status, message, device: named, attached, capabilities: Object.fromEntries(flags), fields: parsed.data };
}
