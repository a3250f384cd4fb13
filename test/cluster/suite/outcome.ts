import { boundingSet, hasSysResource, moduleRefusal, pidOneNamespaceError } from '../harness/machine.ts';

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
const limits: readonly Limit[] = [
  {
    tests: /\(default fs\).*(while pod is using it|expansion of pvcs created for ephemeral pvcs)/,
    proof: async ({ filesystem }) =>
      filesystem !== 'ext4' || hasSysResource()
        ? undefined
        : `ext4 does not grow while mounted without CAP_SYS_RESOURCE (CapBnd ${boundingSet()})`,
  },
  {
    // The test enters the mount namespace of process 1 to look at the kubelet's directory.
    tests: /should not mount \/ map unused volumes in a pod/,
    proof: async ({ hasOneNode }) =>
      pidOneNamespaceError() ?? (hasOneNode ? undefined : 'each of several kubelets has a mount namespace of its own'),
  },
  {
    // The test wants an image of an example from that module, a program that fills volumes.
    tests: /should provision storage with any volume data source/,
    proof: async () => {
      const module = 'github.com/kubernetes-csi/lib-volume-populator';
      const refusal = await moduleRefusal(module);
      return refusal === undefined ? undefined : `hello-populator cannot be built from ${module}: ${refusal}`;
    },
  },
];

interface Limit {
  readonly tests: RegExp;
  /** What shows that this machine has the limit; undefined if it has not. */
  readonly proof: (run: SuiteSubject) => Promise<string | undefined>;
}

/** What a run of the suite was about: volumes with that filesystem. */
interface SuiteSubject {
  readonly filesystem: string;
  readonly hasOneNode: boolean;
}

/** Reads ginkgo's last words. */
export async function outcomeOf(log: string, run: SuiteSubject): Promise<SuiteOutcome> {
  const last = /^(?:SUCCESS|FAIL)!.* -- (\d+) Passed \| (\d+) Failed/m.exec(log);
  if (last === null) return { passed: 0, failed: 1, machine: 0, lines: [log.slice(-3000)] };
  const failures = [...new Set([...log.matchAll(/^\s*\[FAIL\] (.*)$/gm)].map(([, name = '']) => name.trim()))];
  const proofs = await Promise.all(failures.map((name) => limits.find(({ tests }) => tests.test(name))?.proof(run)));
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
