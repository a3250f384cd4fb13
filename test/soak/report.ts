import { release } from 'node:os';
import { escapeText, lineChart, type Series } from './chart.ts';
import type { RecordedCall } from './recorder.ts';
import type { Sample } from './sampler.ts';

/** All that a soak has seen. */
export interface Soak {
  /** The command that repeats it. */
  readonly command: string;
  readonly startedAt: Date;
  readonly elapsedMs: number;
  readonly calls: readonly RecordedCall[];
  readonly samples: readonly Sample[];
  readonly killsMs: readonly number[];
  readonly facts: Readonly<Record<string, string>>;
  /** What was wrong; empty if nothing was. */
  readonly violations: readonly string[];
}

const percentiles = [50, 95, 99] as const;
const minuteMs = 60_000;
/** Points in a line: enough to see a change, few enough that each has calls to speak of. */
const mostBuckets = 60;
const leastBucketMs = 5_000;

/** A page that needs nothing else: text, tables and pictures. */
export function soakPage(soak: Soak): string {
  const { calls, facts, startedAt, violations } = soak;
  const verdict = violations.length === 0 ? 'PASSED' : 'FAILED';
  return [
    '<!doctype html><html lang="en"><head><meta charset="utf-8">',
    `<title>Holdfast soak: ${verdict}</title><style>${style}</style></head><body>`,
    `<h1>Holdfast soak <span class="${verdict}">${verdict}</span></h1>`,
    violations.length === 0
      ? ''
      : `<ul class="FAILED">${violations.map((each) => `<li>${escapeText(each)}</li>`).join('')}</ul>`,
    `<p>${escapeText(startedAt.toISOString())}, kernel ${escapeText(release())}. Repeat it with <code>${escapeText(soak.command)}</code>.</p>`,
    table(['', ''], Object.entries(facts)),
    '<h2>Over time</h2><p>Grey lines: the driver was killed (kill -9) and started again.</p>',
    `<div class="charts">${overview(soak).join('\n')}</div>`,
    '<h2>Latency of each RPC</h2>',
    '<p>Milliseconds, on a logarithmic scale, as the caller saw them: waiting for other calls and for two cores included.</p>',
    `<div class="charts">${latencies(soak).join('\n')}</div>`,
    '<h2>Calls</h2>',
    table(['RPC', 'calls', 'p50 ms', 'p95 ms', 'p99 ms', 'max ms', 'errors'], byRpc(calls).map(callRow)),
    '<p>UNAVAILABLE: no driver was there. ABORTED: another call was at work on the same volume. Any other error is a violation.</p>',
    '</body></html>',
  ].join('\n');
}

function overview(soak: Soak): string[] {
  const { calls, elapsedMs, killsMs, samples } = soak;
  const chart = { xMaximum: elapsedMs / minuteMs, marks: killsMs.map((at) => at / minuteMs) };
  const codes = [...new Set(calls.map(({ code }) => code))].filter((code) => code !== 'OK').sort();
  const ok = {
    name: 'OK',
    points: perMinute(
      soak,
      calls.filter(({ code }) => code === 'OK'),
    ),
  };
  const errors = codes.map((code) => ({
    name: code,
    points: perMinute(
      soak,
      calls.filter((call) => call.code === code),
    ),
  }));
  const sampled = (name: string, read: (sample: Sample) => number): Series => ({
    name,
    points: samples.map((sample) => ({ x: sample.atMs / minuteMs, y: read(sample) })),
  });
  const mebibytes = (bytes: number) => bytes / (1 << 20);
  return [
    lineChart([ok], { ...chart, title: 'Operations', unit: 'a minute' }),
    lineChart(errors, { ...chart, title: 'Errors by code', unit: 'a minute' }),
    lineChart(
      [
        sampled('resident', (sample) => mebibytes(sample.residentBytes)),
        sampled('anonymous', (sample) => mebibytes(sample.anonymousBytes)),
      ],
      { ...chart, title: "The driver's memory", unit: 'MiB' },
    ),
    lineChart(
      [sampled('descriptors', ({ descriptors }) => descriptors), sampled('threads', ({ threads }) => threads)],
      { ...chart, title: 'Descriptors and threads', unit: '' },
    ),
  ];
}

function latencies({ calls, elapsedMs, killsMs, ...soak }: Soak): string[] {
  const marks = killsMs.map((at) => at / minuteMs);
  return byRpc(calls).map(([rpc, all]) => {
    const answered = all.filter(({ code }) => code === 'OK');
    const series = percentiles.map((percentile) => ({
      name: `p${percentile}`,
      points: buckets({ ...soak, calls, elapsedMs, killsMs }, answered).map(({ calls: some, middleMs }) => ({
        x: middleMs / minuteMs,
        y: percentileOf(
          some.map(({ durationMs }) => durationMs),
          percentile,
        ),
      })),
    }));
    return lineChart(series, { title: rpc, unit: 'ms', xMaximum: elapsedMs / minuteMs, marks, logarithmic: true });
  });
}

function perMinute(soak: Soak, calls: readonly RecordedCall[]): Series['points'] {
  return buckets(soak, calls).map(({ calls: some, lengthMs, middleMs }) => ({
    x: middleMs / minuteMs,
    y: (some.length * minuteMs) / lengthMs,
  }));
}

/** The calls by when they ended. */
function buckets({ elapsedMs }: Soak, calls: readonly RecordedCall[]) {
  const count = Math.max(1, Math.min(mostBuckets, Math.floor(elapsedMs / leastBucketMs)));
  const lengthMs = elapsedMs / count;
  const found = Array.from({ length: count }, (_, index) => {
    const some: RecordedCall[] = [];
    return { middleMs: (index + 0.5) * lengthMs, lengthMs, calls: some };
  });
  for (const call of calls) found[Math.min(count - 1, Math.floor(call.endedMs / lengthMs))]?.calls.push(call);
  return found;
}

function byRpc(calls: readonly RecordedCall[]): [string, RecordedCall[]][] {
  return [...groupBy(calls, ({ rpc }) => rpc)].sort(([a], [b]) => (a < b ? -1 : 1));
}

function groupBy(calls: readonly RecordedCall[], keyOf: (call: RecordedCall) => string): Map<string, RecordedCall[]> {
  const groups = new Map<string, RecordedCall[]>();
  for (const call of calls) {
    const group = groups.get(keyOf(call)) ?? [];
    group.push(call);
    groups.set(keyOf(call), group);
  }
  return groups;
}

function callRow([rpc, calls]: readonly [string, readonly RecordedCall[]]): string[] {
  const durations = calls.filter(({ code }) => code === 'OK').map(({ durationMs }) => durationMs);
  const errors = [...groupBy(calls, ({ code }) => code)].filter(([code]) => code !== 'OK');
  const times = [...percentiles, 100].map((percentile) => percentileOf(durations, percentile)?.toFixed(1) ?? '');
  return [rpc, `${calls.length}`, ...times, errors.map(([code, some]) => `${code} ${some.length}`).join(', ')];
}

/** Of the nearest rank; undefined of nothing. */
function percentileOf(values: readonly number[], percentile: number): number | undefined {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil((percentile / 100) * sorted.length) - 1)];
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const cells = (row: readonly string[], tag: string) =>
    row.map((cell) => `<${tag}>${escapeText(cell)}</${tag}>`).join('');
  return `<table><tr>${cells(head, 'th')}</tr>${rows.map((row) => `<tr>${cells(row, 'td')}</tr>`).join('\n')}</table>`;
}

const style = `
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 1180px; margin: 2em auto; padding: 0 1em; }
.PASSED { color: #fff; background: #00795a; padding: 0 .4em; border-radius: .2em; }
.FAILED { color: #fff; background: #b3261e; padding: 0 .4em; border-radius: .2em; }
ul.FAILED { padding: .5em 2em; }
table { border-collapse: collapse; } td, th { text-align: left; padding: .1em 1.2em .1em 0; font-variant-numeric: tabular-nums; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(480px, 1fr)); gap: 12px; }
svg { width: 100%; border: 1px solid #e4e4e4; border-radius: 4px; font: 11px system-ui, sans-serif; }
.title { font-size: 13px; font-weight: 600; } .unit { font-weight: 400; fill: #666; } .tick { fill: #555; }
.grid { stroke: #eee; } .mark { stroke: #999; stroke-dasharray: 2 2; }
`;
