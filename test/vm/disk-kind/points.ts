/** Each pass of each step, before and after: where a driver dies. */
export function pointsOf(steps: readonly string[]): [when: string, step: string, pass: string][] {
  const passes = new Map<string, number>();
  return steps.flatMap((step) => {
    const pass = (passes.get(step) ?? 0) + 1;
    passes.set(step, pass);
    return (['before', 'after'] as const).map((when): [string, string, string] => [when, step, `${pass}`]);
  });
}
