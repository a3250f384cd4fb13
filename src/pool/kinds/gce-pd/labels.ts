import type { LabelNames } from '../../cloud-disk/cloud.ts';

/** The labels of this driver. Google takes lower-case letters, digits, dashes and underscores. */
export const gceLabels = {
  pool: 'holdfast-pool',
  volume: 'holdfast-volume',
  snapshot: 'holdfast-snapshot',
  created: 'holdfast-created',
  fresh: 'holdfast-first-node',
  record: { prefix: 'holdfast-record-', longestValue: 63, encoding: 'hex' },
} as const satisfies LabelNames;

/** The number of labels that a disk can have. */
export const maxLabels = 64;

/** The labels of a class: `team=storage,cost-center=7`. @returns the mistake in words, if there is one */
export function readLabels(text: string): Readonly<Record<string, string>> | string {
  const labels: Record<string, string> = {};
  for (const pair of text.split(',').filter((each) => each.trim() !== '')) {
    const [key = '', value = '', ...rest] = pair.trim().split('=');
    const mistake = rest.length > 0 || !pair.includes('=') ? 'must be KEY=VALUE,KEY=VALUE' : requireLabel(key, value);
    if (mistake !== undefined) return `${pair.trim()} ${mistake}`;
    labels[key] = value;
  }
  return labels;
}

/** @returns the mistake in words, if there is one */
export function requireLabel(key: string, value: string): string | undefined {
  if (/^(holdfast|goog)-/.test(key)) return 'is a label of Google or of this driver';
  if (!/^[a-z][-_a-z0-9]{0,62}$/.test(key) || !/^[-_a-z0-9]{0,63}$/.test(value)) {
    return 'cannot be a label: Google takes up to 63 lower-case letters, digits, dashes and underscores';
  }
  return undefined;
}
