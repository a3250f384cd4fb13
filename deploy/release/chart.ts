import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
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
  const text = readFileSync(values, 'utf8').replace('repository: localhost/holdfast', `repository: ${repository}`);
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
