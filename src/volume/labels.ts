import { InvalidArgument } from './errors.ts';

/** Labels that operators give a pool, for storage classes to select by. */
export type Labels = Readonly<Record<string, string>>;

/** The rule of Kubernetes, without the prefix of a domain. */
const labelPattern = /^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/;

export function isLabel(text: string): boolean {
  return labelPattern.test(text);
}

/** Matches pools that have all of these labels with these values. */
export interface LabelSelector {
  /** The selector as the user wrote it. */
  readonly text: string;
  readonly labels: Labels;
}

/** Parses `media=nvme,tier=gold`. @throws InvalidArgument */
export function parseSelector(text: string): LabelSelector {
  const pairs = text.split(',').map((part) => part.split('=').map((word) => word.trim()));
  const isRight = pairs.every((pair) => pair.length === 2 && pair.every(isLabel));
  const labels = Object.fromEntries(pairs);
  if (isRight && Object.keys(labels).length === pairs.length) return { text, labels };
  throw new InvalidArgument(
    `${JSON.stringify(text)} must be labels of a pool with their values, each once, such as media=nvme,tier=gold.`,
  );
}

export function selects(selector: LabelSelector, labels: Labels): boolean {
  return Object.entries(selector.labels).every(([key, value]) => Object.hasOwn(labels, key) && labels[key] === value);
}
