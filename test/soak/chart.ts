/** A line of a chart. Where `y` is undefined the line has a gap. */
export interface Series {
  readonly name: string;
  readonly points: readonly { readonly x: number; readonly y: number | undefined }[];
}

export interface ChartOptions {
  readonly title: string;
  readonly unit: string;
  /** Where the x axis, in minutes, ends. */
  readonly xMaximum: number;
  /** Vertical lines: moments at which something happened. */
  readonly marks: readonly number[];
  readonly logarithmic?: boolean;
}

const size = { width: 560, height: 220 };
const plot = { left: 56, right: 12, top: 30, bottom: 30 };
/** Told apart by people who do not see all colours, too. */
const colours = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', '#000000', '#999933'];

/** Draws lines over time as an SVG element, to stand in an HTML page. */
export function lineChart(series: readonly Series[], options: ChartOptions): string {
  const { logarithmic = false, marks, title, unit, xMaximum } = options;
  const values = series.flatMap(({ points }) => points.flatMap(({ y }) => (y === undefined ? [] : [y])));
  const axis = logarithmic ? logarithmicAxis(values) : linearAxis(values);
  const x = (minutes: number) => plot.left + (minutes / xMaximum) * (size.width - plot.left - plot.right);
  const y = (value: number) => plot.top + (1 - axis.position(value)) * (size.height - plot.top - plot.bottom);
  const bottom = size.height - plot.bottom;
  const right = size.width - plot.right;
  return [
    `<svg viewBox="0 0 ${size.width} ${size.height}" role="img" aria-label="${escapeText(title)}">`,
    `<text class="title" x="${plot.left}" y="16">${escapeText(title)} <tspan class="unit">${escapeText(unit)}</tspan></text>`,
    ...marks.map(
      (at) => `<line class="mark" x1="${round(x(at))}" x2="${round(x(at))}" y1="${plot.top}" y2="${bottom}"/>`,
    ),
    ...axis.ticks.map((value) => {
      const at = round(y(value));
      const label = `<text class="tick" x="${plot.left - 6}" y="${at + 4}" text-anchor="end">${formatTick(value)}</text>`;
      return `<line class="grid" x1="${plot.left}" x2="${right}" y1="${at}" y2="${at}"/>${label}`;
    }),
    ...minuteTicks(xMaximum).map(
      (value) =>
        `<text class="tick" x="${round(x(value))}" y="${bottom + 16}" text-anchor="middle">${value} min</text>`,
    ),
    ...series.map(({ points }, index) => {
      const path = points.map((point, at) => {
        if (point.y === undefined) return '';
        const isStart = points[at - 1]?.y === undefined;
        // A point that stands alone is a line without length, which has round ends.
        return `${isStart ? 'M' : 'L'}${round(x(point.x))} ${round(y(point.y))}${isStart ? 'h0' : ''}`;
      });
      return `<path d="${path.join('')}" fill="none" stroke="${colourOf(index)}" stroke-width="1.6" stroke-linecap="round"/>`;
    }),
    ...legend(series),
    '</svg>',
  ].join('\n');
}

interface Axis {
  readonly ticks: readonly number[];
  /** From 0, at the bottom, to 1. */
  position(value: number): number;
}

function linearAxis(values: readonly number[]): Axis {
  const highest = Math.max(1, ...values);
  const magnitude = 10 ** Math.floor(Math.log10(highest));
  const step =
    [0.2, 0.5, 1, 2].map((factor) => factor * magnitude).find((each) => highest / each <= 5) ?? magnitude * 2;
  const top = Math.ceil(highest / step) * step;
  const ticks = Array.from({ length: Math.round(top / step) + 1 }, (_, index) => index * step);
  return { ticks, position: (value) => value / top };
}

function logarithmicAxis(values: readonly number[]): Axis {
  const positive = values.filter((value) => value > 0);
  const low = Math.floor(Math.log10(Math.min(1, ...positive)));
  const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(1, ...positive))));
  const ticks = Array.from({ length: high - low + 1 }, (_, index) => 10 ** (low + index));
  return { ticks, position: (value) => (Math.log10(Math.max(value, 10 ** low)) - low) / (high - low) };
}

function minuteTicks(maximum: number): number[] {
  const step = [0.5, 1, 2, 5, 10, 30, 60, 120].find((each) => maximum / each <= 8) ?? 240;
  return Array.from({ length: Math.floor(maximum / step) + 1 }, (_, index) => index * step);
}

function legend(series: readonly Series[]): string[] {
  if (series.length < 2) return [];
  const widths = series.map(({ name }) => 26 + name.length * 6);
  let x = size.width - plot.right - widths.reduce((sum, width) => sum + width, 0);
  return series.map(({ name }, index) => {
    x += widths[index - 1] ?? 0;
    return `<rect x="${x}" y="8" width="10" height="10" fill="${colourOf(index)}"/><text class="tick" x="${x + 14}" y="17">${escapeText(name)}</text>`;
  });
}

function colourOf(index: number): string {
  return colours[index % colours.length] ?? '#000000';
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

function formatTick(value: number): string {
  return value >= 1000 ? `${value / 1000}k` : `${Number(value.toPrecision(3))}`;
}

/** For text that stands in HTML or SVG. */
export function escapeText(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}
