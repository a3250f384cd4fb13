/** One line of `holdfast doctor`. warn: it works, but not all of it, or not for long. */
export interface Finding {
  readonly check: string;
  readonly status: 'ok' | 'warn' | 'fail';
  readonly detail: string;
  /** What to do; undefined if all is well. */
  readonly remedy?: string;
}

export function ok(check: string, detail: string): Finding {
  return { check, status: 'ok', detail };
}

export function warn(check: string, detail: string, remedy: string): Finding {
  return { check, status: 'warn', detail, remedy };
}

export function fail(check: string, detail: string, remedy: string): Finding {
  return { check, status: 'fail', detail, remedy };
}
