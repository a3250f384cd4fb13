import { createHash } from 'node:crypto';
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse, stringify } from 'yaml';
import { z } from 'zod';
import { imageRepository, releaseUrl } from '../../scripts/published.ts';
import { version } from '../../src/version.ts';
import { projectRoot } from '../image/image.ts';
import { output } from '../image/program.ts';

export interface ChartRequest {
  readonly repository: string;
  readonly archive: string;
  readonly work: string;
  /** Of all its files, so that equal charts are equal archives. */
  readonly epochSeconds: number;
}

/** The chart as `helm package` makes it, with the repository that the image is published in. */
export function writeChart({ archive, epochSeconds, repository, work }: ChartRequest): void {
  mkdirSync(work, { recursive: true });
  cpSync(join(projectRoot, 'deploy', 'charts', 'holdfast'), join(work, 'holdfast'), { recursive: true });
  const values = join(work, 'holdfast', 'values.yaml');
  const text = readFileSync(values, 'utf8').replace(`repository: ${imageRepository()}`, `repository: ${repository}`);
  writeFileSync(values, text);
  const plain = [
    '--sort=name',
    `--mtime=@${epochSeconds}`,
    '--owner=0',
    '--group=0',
    '--numeric-owner',
    '--mode=u=rwX,go=rX',
  ];
  output('tar', ['-C', work, ...plain, '--use-compress-program=gzip -n', '-cf', archive, 'holdfast']);
}

const chartFile = z.looseObject({ name: z.string(), version: z.string() });

/**
 * The index by which `helm repo add` takes the files of a release for a repository of charts.
 * @param at where the release is published; empty: the index names the chart beside it
 */
export function chartIndex(directory: string, at: string, epochSeconds: number): string {
  const description = readFileSync(join(projectRoot, 'deploy', 'charts', 'holdfast', 'Chart.yaml'), 'utf8');
  const archive = `holdfast-${version}.tgz`;
  const digest = createHash('sha256')
    .update(readFileSync(join(directory, archive)))
    .digest('hex');
  const url = at === '' ? archive : `${releaseUrl(at, version)}/${archive}`;
  const generated = new Date(epochSeconds * 1000).toISOString();
  const entry = { ...chartFile.parse(parse(description)), created: generated, digest, urls: [url] };
  return stringify({ apiVersion: 'v1', generated, entries: { holdfast: [entry] } });
}
