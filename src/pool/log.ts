/** Where a pool reports what it found and did by itself. Structurally a pino logger. */
export interface PoolLog {
  info(fields: Record<string, unknown>, message: string): void;
  warn(fields: Record<string, unknown>, message: string): void;
  error(fields: Record<string, unknown>, message: string): void;
}
