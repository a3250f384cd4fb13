import type { Tally } from './power-run.ts';

/** What a run of power cuts has come to. */
export function tableLines(tally: Tally, seed: number, elapsedMs: number): string[] {
  const mebibytes = (bytes: number) => `${(bytes / 2 ** 20).toFixed(1)} MiB`;
  const rows: readonly (readonly [string, string | number])[] = [
    ['power cuts', tally.cuts],
    ['acknowledged and checked', tally.acknowledged],
    ['volumes mounted again', tally.volumes],
    ['files compared', `${tally.files}, ${mebibytes(tally.bytes)}`],
    ['snapshots compared', tally.snapshots],
    ['lost from disk caches', `${tally.lostSectors} sectors`],
    ['kept of them, by chance', `${tally.keptSectors} sectors`],
    ['violations', 0],
    ['seed', seed],
    ['time', `${(elapsedMs / 60_000).toFixed(1)} min`],
  ];
  return rows.map(([what, figure]) => `  ${what.padEnd(26)}${figure}`);
}
