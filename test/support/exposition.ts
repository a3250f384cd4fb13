import assert from 'node:assert/strict';

/** One line of a scrape that has a value. */
export interface Sample {
  /** With the suffix, if it is part of a histogram. */
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export interface Family {
  readonly name: string;
  readonly type: string;
  readonly help: string;
  readonly samples: readonly Sample[];
}

/** What a driver exposes, read strictly: every sample must belong to a family that was announced before it. */
export class Exposition {
  readonly families: ReadonlyMap<string, Family>;

  constructor(text: string) {
    assert.ok(text.endsWith('\n'), 'a scrape ends with a newline');
    const families = new Map<string, Family & { samples: Sample[] }>();
    let help: { name: string; text: string } | undefined;
    let family: (Family & { samples: Sample[] }) | undefined;
    for (const line of text.split('\n')) {
      const [, kind, name, rest] = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line) ?? [];
      if (line === '') continue;
      if (kind === 'HELP') help = { name: name ?? '', text: rest ?? '' };
      else if (kind === 'TYPE') {
        assert.equal(help?.name, name, `${name} has no HELP`);
        assert.ok(!families.has(name ?? ''), `${name} is announced twice`);
        family = { name: name ?? '', type: rest ?? '', help: help?.text ?? '', samples: [] };
        families.set(family.name, family);
      } else {
        const sample = parseSample(line);
        const suffixes = family?.type === 'histogram' ? ['_bucket', '_sum', '_count'] : [''];
        assert.ok(
          suffixes.some((suffix) => sample.name === `${family?.name}${suffix}`),
          `${sample.name} belongs to nothing`,
        );
        family?.samples.push(sample);
      }
    }
    this.families = families;
  }

  /** The samples of this name that have all these labels. */
  find(name: string, labels: Readonly<Record<string, string>> = {}): Sample[] {
    const family = this.families.get(name) ?? this.families.get(name.replace(/_(bucket|sum|count)$/, ''));
    assert.ok(family !== undefined, `there is no ${name}`);
    const hasAll = (sample: Sample) => Object.entries(labels).every(([label, value]) => sample.labels[label] === value);
    return family.samples.filter((sample) => sample.name === name && hasAll(sample));
  }

  /** The value of the only such sample. */
  value(name: string, labels: Readonly<Record<string, string>> = {}): number {
    const [sample, ...others] = this.find(name, labels);
    assert.ok(sample !== undefined, `there is no ${name} ${JSON.stringify(labels)}`);
    assert.deepEqual(others, [], `there are several ${name} ${JSON.stringify(labels)}`);
    return sample.value;
  }
}

/** `name{label="value"} 1`; in a value only backslash, quote and newline are escaped. */
function parseSample(line: string): Sample {
  const [, name, inner, value] = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/s.exec(line) ?? [];
  assert.ok(name !== undefined && value !== undefined && value !== '' && !Number.isNaN(Number(value)), line);
  const labels: Record<string, string> = {};
  const pairs = /([a-zA-Z_]\w*)="((?:[^"\\]|\\["\\n])*)"(?:,|$)/gy;
  while (inner !== undefined && pairs.lastIndex < inner.length) {
    const [, label, escaped] = pairs.exec(inner) ?? [];
    assert.ok(label !== undefined && escaped !== undefined, `labels of: ${line}`);
    labels[label] = escaped.replace(/\\(.)/g, (_, character: string) => (character === 'n' ? '\n' : character));
  }
  return { name, labels, value: value === '+Inf' ? Number.POSITIVE_INFINITY : Number(value) };
}
