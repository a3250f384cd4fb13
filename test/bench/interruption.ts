/** Aborted by Ctrl-C, and by what ends a job: what was mounted and started is let go of in order. */
export function interruption(): AbortSignal {
  const controller = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => controller.abort(new Error(`ended by ${signal}`)));
  }
  return controller.signal;
}
