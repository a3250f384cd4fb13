import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

export interface FioJob {
  readonly name: string;
  readonly unit: 'IOPS' | 'MiB/s';
  readonly direction: 'read' | 'write';
  readonly arguments: readonly string[];
}

/** What is asked of each data path, whatever lies below it. */
export const fioJobs: readonly FioJob[] = [
  {
    name: '4k random read',
    unit: 'IOPS',
    direction: 'read',
    arguments: ['--rw=randread', '--bs=4k', '--direct=1', '--iodepth=16'],
  },
  {
    name: '4k random write',
    unit: 'IOPS',
    direction: 'write',
    arguments: ['--rw=randwrite', '--bs=4k', '--direct=1', '--iodepth=16'],
  },
  {
    name: '4k write and fsync',
    unit: 'IOPS',
    direction: 'write',
    arguments: ['--rw=randwrite', '--bs=4k', '--ioengine=psync', '--fsync=1'],
  },
  {
    // A log whose blocks are there already and are used in turn, as PostgreSQL's is.
    name: '4k overwrite and fdatasync',
    unit: 'IOPS',
    direction: 'write',
    arguments: ['--rw=write', '--bs=4k', '--ioengine=psync', '--fdatasync=1', '--overwrite=1'],
  },
  {
    name: '1 MiB stream read',
    unit: 'MiB/s',
    direction: 'read',
    arguments: ['--rw=read', '--bs=1M', '--direct=1', '--iodepth=4'],
  },
  {
    name: '1 MiB stream write',
    unit: 'MiB/s',
    direction: 'write',
    arguments: ['--rw=write', '--bs=1M', '--direct=1', '--iodepth=4'],
  },
];

/** What comes before a job's own arguments, which may say otherwise. */
export const fioArguments = ['--output-format=json', '--ioengine=libaio', '--name=bench'] as const;

export async function hasFio(): Promise<boolean> {
  return promisify(execFile)('fio', ['--version']).then(
    () => true,
    () => false,
  );
}

/** @param output what fio printed */
export function rateOf(job: FioJob, output: string): number {
  // The part of fio's JSON that matters here, present since fio 3.0.
  const report: { jobs: Record<FioJob['direction'], { iops: number; bw_bytes: number }>[] } = JSON.parse(output);
  const side = report.jobs[0]?.[job.direction];
  if (side === undefined) throw new Error(`fio reported nothing for ${job.name}`);
  return job.unit === 'IOPS' ? side.iops : side.bw_bytes / 2 ** 20;
}
