/*
 * node scripts/chart-values.ts: writes the table of the chart's values into its README, from values.yaml and its comments.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { isMap, isPair, isScalar, type Node, parseDocument, type YAMLMap } from 'yaml';

const chart = fileURLToPath(new URL('../deploy/charts/holdfast', import.meta.url));
export const valuesPage = `${chart}/README.md`;

interface Row {
  readonly key: string;
  readonly standard: string;
  readonly meaning: string;
}

/** Longer defaults are left to values.yaml. */
const longestDefault = 60;

/** The chart's README, with the values of today. */
export function chartReadme(): string {
  const { contents } = parseDocument(readFileSync(`${chart}/values.yaml`, 'utf8'));
  if (!isMap(contents)) throw new Error('values.yaml has no values');
  const rows = rowsOf(contents, []).map(
    ({ key, meaning, standard }) => `| \`${key}\` | ${standard === '' ? '' : `\`${standard}\``} | ${meaning} |\n`,
  );
  return `# Chart of Holdfast

\`\`\`sh
kubectl create namespace holdfast-system
kubectl label namespace holdfast-system pod-security.kubernetes.io/enforce=privileged
helm install holdfast deploy/charts/holdfast --namespace holdfast-system --values values.yaml
helm test holdfast --namespace holdfast-system
\`\`\`

[Choose](../../../docs/choose.md) helps to choose an installation and a kind of pool, and [production.yaml](../../examples/values/production.yaml) is an
example of values ([explained](../../../docs/production.md)). Values that cannot work are refused, each with one sentence. \`helm test\` makes a volume, and
writes and reads a file.

## Values

\`node scripts/chart-values.ts\` writes this table from the comments of [values.yaml](values.yaml).

| value | default | meaning |
|---|---|---|
${rows.join('')}`;
}

function rowsOf(map: YAMLMap, path: readonly string[], inherited = ''): Row[] {
  return map.items.flatMap((pair, index) => {
    if (!isPair(pair) || !isScalar(pair.key)) return [];
    const { key, value } = pair;
    const name = [...path, String(key.value)];
    // The comment above a map's first key belongs to the map.
    const comment = key.commentBefore ?? (index === 0 && path.length > 0 ? inherited : '');
    const node = value as Node | null;
    if (isMap(node) && node.items.length > 0 && !isWhole(name)) return rowsOf(node, name, node.commentBefore ?? '');
    const standard = node === null ? '' : JSON.stringify(node.toJSON()).replaceAll('|', '\\|');
    return [
      {
        key: name.join('.'),
        standard: standard.length > longestDefault ? '' : standard,
        meaning: wordsOf(comment),
      },
    ];
  });
}

/** Values that are set as a whole. */
function isWhole(name: readonly string[]): boolean {
  return ['affinity', 'nodeSelector', 'resources', 'sidecarResources', 'requests', 'limits', 'labels'].includes(
    name.at(-1) ?? '',
  );
}

/** What stands after an empty line belongs to what came before. */
function wordsOf(comment: string): string {
  const [last = ''] = comment.split(/\n\s*\n/).slice(-1);
  return last
    .split('\n')
    .map((line) => line.trim())
    .join(' ')
    .trim()
    .replaceAll('|', '\\|');
}

if (import.meta.main) writeFileSync(valuesPage, chartReadme());
