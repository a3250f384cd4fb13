/** The log for findings and actions of a pool that no call asked for. Structurally a pino logger. */
export interface PoolLog {
  info(fields: Record<string, unknown>, message: string): void;
  warn(fields: Record<string, unknown>, message: string): void;
  error(fields: Record<string, unknown>, message: string): void;
}
