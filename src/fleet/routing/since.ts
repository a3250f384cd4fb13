/** A time for people, to the second: `2026-03-01T12:00:00Z`. */
export function toTheSecond(timeMs: number): string {
  return new Date(timeMs).toISOString().replace(/\.\d+Z$/, 'Z');
}
