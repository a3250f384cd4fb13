/*
 * node scripts/dashboard/picture.ts: docs/dashboard.svg, what deploy/monitoring/dashboard.json shows of a real driver under
 * load. Its own queries are asked of a real Prometheus; only the drawing is ours, as Grafana is in no package registry.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { freePort } from '../../test/cluster/harness/api-server.ts';
import type { DriverClient } from '../../test/support/client.ts';
import { DriverProcess } from '../../test/support/driver.ts';
import { mountWith, TestVolume } from '../../test/support/life.ts';
import { monitored, monitoringPort } from '../../test/support/monitoring.ts';
import { Scratch } from '../../test/support/scratch.ts';
import { buildBundle } from '../build.ts';
import { type DrawnPanel, draw } from './draw.ts';
import { Prometheus, type Range, type Series } from './prometheus.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const loadSeconds = 90;

const dashboard = z.object({
  panels: z.array(
    z.looseObject({
      type: z.string(),
      title: z.string(),
      gridPos: z.object({ x: z.number(), y: z.number(), w: z.number(), h: z.number() }),
      targets: z.array(z.looseObject({ expr: z.string(), legendFormat: z.string().optional() })).default([]),
      fieldConfig: z.looseObject({ defaults: z.looseObject({ unit: z.string().optional() }) }).optional(),
    }),
  ),
});

/** What Grafana would put in for its variables. */
function filledIn(expression: string): string {
  return expression.replaceAll('$__rate_interval', '10s').replaceAll(/\$(node|pool)\b/g, '.*');
}

/** Few enough for the pools, however fast the machine is. */
const mostThatStay = 12;

/** Lives of volumes, with snapshots, until the time is over; some volumes stay. */
async function load(client: DriverClient, scratch: Scratch, pool: string, untilMs: number): Promise<void> {
  let staying = 0;
  for (let round = 0; Date.now() < untilMs; round += 1) {
    const name = `${pool}-${round}`;
    const volume = new TestVolume(scratch, name, mountWith(round % 2 === 0 ? 'ext4' : 'xfs'));
    mkdirSync(scratch.join('kubelet', name), { recursive: true });
    const { volume: made } = await client.controller.CreateVolume({
      name,
      capacity_range: { required_bytes: 320n << 20n },
      volume_capabilities: [volume.capability],
      parameters: { pool, undelete: round % 3 === 0 ? '1h' : '0' },
    });
    const id = made?.volume_id ?? '';
    await volume.stage(client, id);
    await volume.publish(client, id);
    writeFileSync(volume.file('data'), Buffer.alloc(8 << 20, round));
    const { snapshot } = await client.controller.CreateSnapshot({ source_volume_id: id, name });
    // As somebody does who has mistyped a class.
    if (round % 5 === 0) {
      const wrong = { name: `${name}-wrong`, volume_capabilities: [volume.capability], parameters: { pool: 'none' } };
      await client.controller.CreateVolume(wrong).catch(() => undefined);
    }
    if (round % 4 === 0 && staying < mostThatStay) {
      staying += 1;
      continue;
    }
    await client.controller.DeleteSnapshot({ snapshot_id: snapshot?.snapshot_id ?? '' });
    await volume.tearDown(client, id);
  }
}

async function panelsOf(prometheus: Prometheus, range: Range): Promise<DrawnPanel[]> {
  const { panels } = dashboard.parse(JSON.parse(readFileSync(`${root}/deploy/monitoring/dashboard.json`, 'utf8')));
  const drawn: DrawnPanel[] = [];
  for (const { type, title, gridPos: place, targets, fieldConfig } of panels) {
    if (type !== 'stat' && type !== 'timeseries' && type !== 'row') continue;
    const lines = [];
    for (const { expr, legendFormat = '' } of targets) {
      for (const { labels, points } of await prometheus.query(filledIn(expr), range)) {
        lines.push({ name: named(legendFormat, labels), points });
      }
    }
    drawn.push({ title, type, unit: fieldConfig?.defaults.unit ?? '', place, lines });
  }
  return withoutGaps(drawn);
}

function named(format: string, labels: Series['labels']): string {
  return format.replaceAll(/\{\{\s*(\w+)\s*\}\}/g, (_, label: string) => labels[label] ?? '');
}

/** Tables are left out, and what is below them moves up. */
function withoutGaps(panels: readonly DrawnPanel[]): DrawnPanel[] {
  const tops = [...new Set(panels.map(({ place }) => place.y))].sort((a, b) => a - b);
  let bottom = 0;
  const moved = new Map<number, number>();
  for (const top of tops) {
    moved.set(top, bottom);
    bottom += Math.max(...panels.filter(({ place }) => place.y === top).map(({ place }) => place.h));
  }
  return panels.map((panel) => ({ ...panel, place: { ...panel.place, y: moved.get(panel.place.y) ?? 0 } }));
}

using scratch = new Scratch('dashboard');
const config = [
  'defaultPool: disk',
  'pools:',
  `  disk: { file: ${scratch.join('disk.img')}, size: 16Gi }`,
  `  other: { file: ${scratch.join('other.img')}, size: 8Gi }`,
].join('\n');
const { file: bundle } = await buildBundle(scratch.join('bundle'));
const command = [process.execPath, bundle];
await using driver = await DriverProcess.start(scratch, { command, config, environment: monitored });
await using prometheus = await Prometheus.start(scratch, {
  port: await freePort(),
  target: `127.0.0.1:${await monitoringPort(driver)}`,
});
using client = driver.connect();
const startSeconds = Date.now() / 1000;
await Promise.all(['disk', 'other'].map((pool) => load(client, scratch, pool, Date.now() + loadSeconds * 1000)));
const range = { startSeconds, endSeconds: Date.now() / 1000, stepSeconds: 2 };
const picture = draw(await panelsOf(prometheus, range), range);
writeFileSync(`${root}/docs/dashboard.svg`, picture);
console.log(`docs/dashboard.svg: ${Math.round(picture.length / 1024)} KiB`);
