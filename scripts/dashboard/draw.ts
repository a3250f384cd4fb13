import type { Range, Series } from './prometheus.ts';

/** A panel of the dashboard with what its queries found. */
export interface DrawnPanel {
  readonly title: string;
  readonly type: 'stat' | 'timeseries' | 'row';
  readonly unit: string;
  readonly place: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly lines: readonly { readonly name: string; readonly points: Series['points'] }[];
}

const [column, line, gap] = [50, 26, 6];
const colors = ['#3274d9', '#56a64b', '#e0b400', '#e02f44', '#8f3bb8', '#ff780a', '#37872d', '#705da0'];
/** As many as there is room for beside a graph. */
const namesShown = 8;

/** The panels as one picture, where Grafana would put them. */
export function draw(panels: readonly DrawnPanel[], range: Range): string {
  const height = Math.max(...panels.map(({ place }) => place.y + place.h)) * line + gap;
  const body = panels.map((panel) => drawPanel(panel, range)).join('\n');
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${24 * column} ${height}" font-family="sans-serif" font-size="11">
<title>The Grafana dashboard of Holdfast, with what a driver under load measures</title>
<rect width="100%" height="100%" fill="#f4f5f5"/>
${body}
</svg>
`;
}

function drawPanel(panel: DrawnPanel, range: Range): string {
  const { place, title, type } = panel;
  const [x, y, w, h] = [
    place.x * column + gap / 2,
    place.y * line + gap / 2,
    place.w * column - gap,
    place.h * line - gap,
  ];
  if (type === 'row') return text(x + 4, y + 15, title, 'font-size="13" font-weight="bold"');
  const frame = `<rect x="${x}" y="${y}" width="${w}" height="${h}" fill="#fff" stroke="#d8d9da"/>`;
  const head = text(x + 8, y + 16, title, 'font-weight="bold"');
  const inside = type === 'stat' ? drawStat(panel, x + w / 2, y + h / 2 + 22) : drawGraph(panel, { x, y, w, h }, range);
  return [frame, head, inside].join('');
}

function drawStat({ lines, unit }: DrawnPanel, x: number, y: number): string {
  const last = lines[0]?.points.at(-1)?.[1];
  const shown = last === undefined ? 'no data' : format(last, unit);
  return text(x, y, shown, 'font-size="28" text-anchor="middle" fill="#37872d"');
}

interface Box {
  readonly x: number;
  readonly y: number;
  readonly w: number;
  readonly h: number;
}

function drawGraph({ lines, unit }: DrawnPanel, box: Box, range: Range): string {
  const legend = box.w > 500 ? 235 : 150;
  const [left, right, top, bottom] = [box.x + 66, box.x + box.w - legend, box.y + 28, box.y + box.h - 14];
  const most = Math.max(...lines.flatMap(({ points }) => points.map(([, value]) => value)), 0) || 1;
  const at = (seconds: number) =>
    left + ((seconds - range.startSeconds) / (range.endSeconds - range.startSeconds)) * (right - left);
  const up = (value: number) => bottom - (Math.max(value, 0) / most) * (bottom - top);
  const grid = [0, 0.5, 1].map((share) => {
    const y = round(up(share * most));
    const label = text(left - 5, y + 4, format(share * most, unit), 'text-anchor="end" fill="#555"');
    return `<line x1="${left}" x2="${right}" y1="${y}" y2="${y}" stroke="#e4e5e6"/>${label}`;
  });
  const curves = lines.map(({ points }, index) => {
    const path = points.map(([seconds, value]) => `${round(at(seconds))},${round(up(value))}`).join(' ');
    return `<polyline fill="none" stroke="${color(index)}" stroke-width="1.5" points="${path}"/>`;
  });
  const names = lines.slice(0, namesShown).map(({ name }, index) => {
    const y = top + 8 + index * 15;
    const mark = `<rect x="${right + 10}" y="${y - 6}" width="10" height="4" fill="${color(index)}"/>`;
    return `${mark}${text(right + 25, y, name.slice(0, Math.floor((legend - 30) / 7)))}`;
  });
  const nothing = lines.length === 0 ? [text((left + right) / 2, (top + bottom) / 2, 'none', 'fill="#888"')] : [];
  return [...grid, ...curves, ...names, ...nothing].join('');
}

function color(index: number): string {
  return colors[index % colors.length] ?? '#555';
}

function text(x: number, y: number, words: string, attributes = ''): string {
  const escaped = words.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
  return `<text x="${round(x)}" y="${round(y)}" ${attributes}>${escaped}</text>`;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

/** The units of Grafana that the dashboard uses. */
function format(value: number, unit: string): string {
  if (unit === 'percentunit') return `${round(value * 100)} %`;
  if (unit === 'bytes') return withPrefix(value, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB']);
  if (unit === 's') return value < 1 ? `${round(value * 1000)} ms` : `${round(value)} s`;
  return unit === 'ops' ? `${round(value)}/s` : `${Math.round(value * 100) / 100}`;
}

function withPrefix(value: number, factor: number, units: readonly string[]): string {
  const power = Math.min(units.length - 1, value < 1 ? 0 : Math.floor(Math.log(value) / Math.log(factor)));
  return `${round(value / factor ** power)} ${units[power] ?? ''}`;
}
