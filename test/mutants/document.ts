import type { Mutant } from './mutant.ts';

export const documentPath = 'test/mutants/mutants.md';

/** `no test`: the test that was to kill it fails by itself. */
export type Outcome = 'killed' | 'SURVIVED' | 'no test' | 'not run';

const introduction = `# Mutants

Each row is a safeguard that was taken out of a copy of the sources, and the test that noticed. \`npm run test:mutants\` does
it, and writes this table; it takes long and is no part of \`npm test\`, which only looks whether every text that is to be
taken out is still there. The table is \`test/mutants/table.ts\` and what it imports.

| Without it | In | Test | Outcome |
|---|---|---|---|
`;

export function renderTable(mutants: readonly Mutant[], outcomes: ReadonlyMap<string, Outcome>): string {
  const rows = mutants.map(
    ({ file, killer, name }) => `| ${name} | \`${file}\` | \`${killer}\` | ${outcomes.get(name) ?? 'not run'} |`,
  );
  return `${introduction}${rows.join('\n')}\n`;
}

/** What an earlier run found, by the names of the mutants. */
export function readOutcomes(document: string): Map<string, Outcome> {
  const rows = document.matchAll(/^\| (?<name>.*?) \| `.*` \| (?<outcome>killed|SURVIVED|no test|not run) \|$/gm);
  return new Map(Array.from(rows, ({ groups }) => [groups?.['name'] ?? '', groups?.['outcome'] as Outcome]));
}
