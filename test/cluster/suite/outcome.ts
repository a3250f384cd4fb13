import { boundingSet, hasSysResource, pidOneNamespaceError } from '../harness/machine.ts';

/** What a run of the suite came to. */
export interface SuiteOutcome {
  readonly passed: number;
  readonly failed: number;
  /** Failures that are the machine's, and not the driver's. */
  readonly machine: number;
  /** What to tell of it. */
  readonly lines: readonly string[];
}

/** What a machine may lack: the tests that cannot pass without, and the proof where it does. */
const limits: readonly { readonly tests: RegExp; readonly proof: (filesystem: string) => string | undefined }[] = [
  {
    // Offline, too: the kubelet stages the volume before it asks for its expansion, and then it is mounted.
    tests: /\(default fs\)\(allowExpansion\)/,
    proof: (filesystem) =>
      filesystem !== 'ext4' || hasSysResource()
        ? undefined
        : `ext4 does not grow while mounted without CAP_SYS_RESOURCE (CapBnd ${boundingSet()})`,
  },
  {
    // The test enters the mount namespace of process 1 to look at the kubelet's directory.
    tests: /should not mount \/ map unused volumes in a pod/,
    proof: pidOneNamespaceError,
  },
];

/** Reads ginkgo's last words about volumes with that filesystem. */
export function outcomeOf(log: string, filesystem: string): SuiteOutcome {
  const last = /^(?:SUCCESS|FAIL)!.* -- (\d+) Passed \| (\d+) Failed/m.exec(log);
  if (last === null) return { passed: 0, failed: 1, machine: 0, lines: [log.slice(-3000)] };
  const failures = [...new Set([...log.matchAll(/^\s*\[FAIL\] (.*)$/gm)].map(([, name = '']) => name.trim()))];
  const proofs = failures.map((name) => limits.find(({ tests }) => tests.test(name))?.proof(filesystem));
  const machine = proofs.filter((proof) => proof !== undefined).length;
  return {
    passed: Number(last[1]),
    failed: Number(last[2]) - machine,
    machine,
    lines: failures.map((name, index) =>
      proofs[index] === undefined ? `FAILED: ${name}` : `not on this machine: ${name}: ${proofs[index]}`,
    ),
  };
}
