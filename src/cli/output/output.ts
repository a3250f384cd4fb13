import type { ErrorCode } from '../../volume/errors.ts';
import type { Shape, Shapes } from './shapes.ts';

/** The code of a problem, for programs. WARNING: nothing failed, but there is something to know. */
export type ProblemCode = ErrorCode | 'PERMISSION_DENIED' | 'WARNING';

/** Where a command writes: the result goes to `line`, all else to `problem`. */
export interface Output {
  line(text: string): void;
  /** Prints a problem and what to do about it; it is not part of the result. */
  problem(code: ProblemCode, message: string): void;
  /** The reader is a person at a terminal that shows colours. */
  readonly colours: boolean;
  /** Columns of the reader's terminal; undefined: it is no terminal, or `--wide` asks for all. */
  readonly width: number | undefined;
}

/** The command's exit codes. */
export const exitCodes = { ok: 0, failed: 1, usage: 2 } as const;

/** A problem as standard error has it: a line for people, or with `--json` an object on one line (docs/json.md). */
export function problemLine(code: ProblemCode, message: string, { json }: { readonly json: boolean }): string {
  return json ? JSON.stringify({ code, message }) : `holdfast: ${message}`;
}

/** The result of a command for programs. Sizes become strings of bytes: some readers of JSON lose digits of numbers. */
export function toJson<Command extends keyof Shapes>(result: Shape<Command>): string {
  return JSON.stringify(result, (_key, field) => (typeof field === 'bigint' ? field.toString() : field), 2);
}
