import { boundingSet } from '../harness/machine.ts';

/** What a run of the suite came to. */
export interface SuiteOutcome {
  readonly passed: number;
  readonly failed: number;
  /** Failures that are the machine's, and not the driver's. */
  readonly machine: number;
  /** What to tell of it. */
  readonly lines: readonly string[];
}

/** Growing a mounted ext4 is refused by a kernel that has taken CAP_SYS_RESOURCE from root. */
const onlineExt4 = /\(default fs\)\(allowExpansion\).*while pod is using it/;

/** Reads ginkgo's last words. */
export function outcomeOf(log: string, canGrowExt4Online: boolean): SuiteOutcome {
  const last = /^(?:SUCCESS|FAIL)!.* -- (\d+) Passed \| (\d+) Failed/m.exec(log);
  if (last === null) return { passed: 0, failed: 1, machine: 0, lines: [log.slice(-3000)] };
  const failures = [...log.matchAll(/^\s*\[FAIL\] (.*)$/gm)].map(([, name = '']) => name.trim());
  const isMachine = (name: string) => !canGrowExt4Online && onlineExt4.test(name);
  const machine = failures.filter(isMachine);
  return {
    passed: Number(last[1]),
    failed: Number(last[2]) - machine.length,
    machine: machine.length,
    lines: [
      ...failures.filter((name) => !isMachine(name)).map((name) => `FAILED: ${name}`),
      ...machine.map((name) => `not on this machine (no CAP_SYS_RESOURCE, CapBnd ${boundingSet()}): ${name}`),
    ],
  };
}
