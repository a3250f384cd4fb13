import { writeFileSync } from 'node:fs';
import { z } from 'zod';
import { spawnWithUs } from '../../test/support/child.ts';
import { eventually } from '../../test/support/eventually.ts';
import { findPrometheusProgram } from '../../test/support/promtool.ts';
import type { Scratch } from '../../test/support/scratch.ts';

const answer = z.object({
  data: z.object({
    result: z.array(
      z.object({
        metric: z.record(z.string(), z.string()),
        values: z.array(z.tuple([z.number(), z.string()])),
      }),
    ),
  }),
});

export interface Series {
  readonly labels: Readonly<Record<string, string>>;
  /** Seconds since 1970, and the value. */
  readonly points: readonly (readonly [atSeconds: number, value: number])[];
}

export interface Range {
  readonly startSeconds: number;
  readonly endSeconds: number;
  readonly stepSeconds: number;
}

/** A real Prometheus that looks at one driver each second. */
export class Prometheus implements AsyncDisposable {
  readonly #url: string;
  readonly #child: ReturnType<typeof spawnWithUs>;

  private constructor(url: string, child: ReturnType<typeof spawnWithUs>) {
    this.#url = url;
    this.#child = child;
  }

  static async start(scratch: Scratch, { port, target }: { port: number; target: string }): Promise<Prometheus> {
    const file = scratch.join('prometheus.yml');
    // The label that deploy/monitoring/pod-monitor.yaml sets.
    const job = { job_name: 'holdfast', static_configs: [{ targets: [target], labels: { node: 'node-1' } }] };
    writeFileSync(file, JSON.stringify({ global: { scrape_interval: '1s' }, scrape_configs: [job] }));
    const address = `127.0.0.1:${port}`;
    const child = spawnWithUs(
      [
        findPrometheusProgram('prometheus'),
        `--config.file=${file}`,
        `--storage.tsdb.path=${scratch.join('tsdb')}`,
        `--web.listen-address=${address}`,
        '--log.level=error',
      ],
      { stdio: ['ignore', 'ignore', 'inherit'] },
    );
    const prometheus = new Prometheus(`http://${address}`, child);
    await eventually(async () => {
      if (!(await fetch(`http://${address}/-/ready`)).ok) throw new Error('Prometheus is not ready');
    });
    return prometheus;
  }

  async query(query: string, { startSeconds, endSeconds, stepSeconds }: Range): Promise<Series[]> {
    const parameters = new URLSearchParams({
      query,
      start: `${startSeconds}`,
      end: `${endSeconds}`,
      step: `${stepSeconds}`,
    });
    const response = await fetch(`${this.#url}/api/v1/query_range?${parameters}`);
    const text = await response.text();
    if (!response.ok) throw new Error(`${query}: ${text}`);
    return answer.parse(JSON.parse(text)).data.result.map(({ metric, values }) => ({
      labels: metric,
      points: values.map(([at, value]) => [at, Number(value)] as const).filter(([, value]) => Number.isFinite(value)),
    }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = new Promise((resolve) => this.#child.once('exit', resolve));
    if (this.#child.exitCode === null) {
      this.#child.kill('SIGTERM');
      await ended;
    }
  }
}
