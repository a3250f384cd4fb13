/** Where a command writes: people and programs read `line`, only people read `problem`. */
export interface Output {
  line(text: string): void;
  /** What went wrong, and what to do about it; not part of the result. */
  problem(text: string): void;
  /** Whether the reader is a person at a terminal that shows colours. */
  readonly colours: boolean;
}

/** The command's exit codes. */
export const exitCodes = { ok: 0, failed: 1, usage: 2 } as const;

/** The result for programs. Sizes are strings of bytes, as int64 is in JSON from protobuf: some readers lose digits. */
export function toJson(value: unknown): string {
  return JSON.stringify(value, (_key, field) => (typeof field === 'bigint' ? field.toString() : field), 2);
}
