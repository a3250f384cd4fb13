import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { tableLines } from '../src/cli/output/table.ts';

/** What we read of a spec in Ginkgo's JSON report. */
const specReport = z.object({
  LeafNodeType: z.string(),
  LeafNodeText: z.string(),
  ContainerHierarchyTexts: z.array(z.string()).nullable(),
  State: z.string(),
  Failure: z.object({ Message: z.string() }).optional(),
});

const suiteReports = z.array(z.object({ SpecReports: z.array(specReport).nullable() }));

/** What became of one spec of csi-sanity. */
export interface Spec {
  /** The RPC or service it is about. */
  readonly about: string;
  readonly text: string;
  /** pending: switched off in csi-sanity itself. */
  readonly outcome: 'passed' | 'failed' | 'skipped' | 'pending';
  /** csi-sanity's reason for a skip or a failure. */
  readonly reason: string;
}

/** Reads the file that `--ginkgo.json-report` wrote. */
export function readSpecs(path: string): Spec[] {
  const suites = suiteReports.parse(JSON.parse(readFileSync(path, 'utf8')));
  const specs = suites.flatMap((suite) => suite.SpecReports ?? []);
  return specs.filter((spec) => spec.LeafNodeType === 'It' || spec.State !== 'passed').map(toSpec);
}

function toSpec(spec: z.infer<typeof specReport>): Spec {
  const [service, rpc] = spec.ContainerHierarchyTexts ?? [];
  return {
    about: (rpc ?? service ?? spec.LeafNodeType).replace(/ \[.*\]$/, ''),
    text: spec.LeafNodeText,
    outcome: outcomeOf(spec.State),
    reason: spec.Failure?.Message ?? '',
  };
}

/** Whatever Ginkgo calls it (panicked, timedout, interrupted, …): what did not pass has failed. */
function outcomeOf(state: string): Spec['outcome'] {
  return state === 'passed' || state === 'skipped' || state === 'pending' ? state : 'failed';
}

/** How many specs there are of each kind; skips by their reason. */
export interface Tally {
  readonly passed: number;
  readonly failed: number;
  readonly pending: number;
  readonly skipped: Readonly<Record<string, number>>;
}

export function tally(specs: readonly Spec[]): Tally {
  const count = (outcome: Spec['outcome']) => specs.filter((spec) => spec.outcome === outcome).length;
  const skipped: Record<string, number> = {};
  for (const { outcome, reason } of specs) {
    if (outcome === 'skipped') skipped[reason] = (skipped[reason] ?? 0) + 1;
  }
  return { passed: count('passed'), failed: count('failed'), pending: count('pending'), skipped };
}

/** The closing table: a line for each RPC, with the reasons of its skips, and the sums. */
export function reportLines(specs: readonly Spec[]): string[] {
  // Sorted: Ginkgo runs the specs in another order each time.
  const abouts = [...new Set(specs.map(({ about }) => about))].sort();
  const row = (title: string, of: readonly Spec[]) => {
    const cell = (outcome: Spec['outcome']) => {
      const count = of.filter((spec) => spec.outcome === outcome).length;
      return count === 0 ? '' : `${count}`;
    };
    const reasons = of.filter(({ outcome }) => outcome === 'skipped').map(({ reason }) => reason);
    const why = title === 'all' ? '' : [...new Set(reasons)].join('; ');
    return [title, cell('passed'), cell('failed'), cell('skipped'), cell('pending'), why];
  };
  const columns = [
    { title: 'ABOUT' },
    ...['PASSED', 'FAILED', 'SKIPPED', 'PENDING'].map((title) => ({ title, align: 'right' as const })),
    { title: 'WHY SKIPPED' },
  ];
  return tableLines(columns, [
    ...abouts.map((about) =>
      row(
        about,
        specs.filter((spec) => spec.about === about),
      ),
    ),
    row('all', specs),
  ]);
}
