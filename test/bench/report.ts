import { createdTypes } from './creations.ts';
import { describeDataPath } from './data/data-path.ts';
import { describeDevices } from './devices/report.ts';
import type { Goal } from './goal.ts';
import { rpcs } from './life.ts';
import { type LifecycleResult, manyCallers, runners } from './lifecycles.ts';
import type { MemoryResult } from './memory.ts';
import { type BenchResult, mebibytes } from './result.ts';
import { describeScale } from './scale/scale.ts';
import { table } from './table.ts';

/** The result for people. */
export function describeResult(result: BenchResult, goals: readonly Goal[]): string {
  const { machine, startup } = result;
  return [
    `Holdfast bench: ${machine.processors} processors, kernel ${machine.kernel}, Node ${machine.node}, on ${machine.filesystem}`,
    ...result.lifecycles.map(describeLifecycles),
    describeCreations(result.creations),
    `Start (median of ${startup.starts}): first Probe after ${ms(startup.firstProbeMs)} ms, ready after ${ms(startup.readyMs)} ms`,
    describeMemory(result.memory),
    describeSnapshots(result.snapshots),
    typeof result.scale === 'string' ? `Many volumes: ${result.scale}` : describeScale(result.scale),
    typeof result.dataPath === 'string' ? `Data path: ${result.dataPath}` : describeDataPath(result.dataPath),
    describeDevices(result.devices),
    table(
      ['goal', 'measured', ''],
      goals.map(({ name, measured, met }) => [name, measured, met ? 'met' : 'MISSED']),
    ),
  ].join('\n\n');
}

function describeLifecycles({ pool, rate, ratio, latencyMs }: LifecycleResult): string {
  const rows = rpcs.map((rpc) => [
    rpc,
    ...runners.flatMap((runner) => [ms(latencyMs[rpc][runner].p50), ms(latencyMs[rpc][runner].p99)]),
  ]);
  return [
    `Lives a second, pool '${pool}' (ext4, 1 GiB, thin): ` +
      `floor ${rate.floor.toFixed(1)} · 1 caller ${rate.one.toFixed(1)} (${ratio.one.toFixed(2)} of the floor) · ` +
      `${manyCallers} callers ${rate.many.toFixed(1)} (${ratio.many.toFixed(2)})`,
    table(['ms', 'floor p50', 'p99', '1 caller p50', 'p99', `${manyCallers} callers p50`, 'p99'], rows),
  ].join('\n');
}

function describeCreations(creations: BenchResult['creations']): string {
  const each = createdTypes.map((fsType) => `${fsType} ${ms(creations[fsType].p50Ms)} ms`);
  return `CreateVolume where files share blocks (1 GiB, thin, 1 caller, p50): ${each.join(', ')}`;
}

function describeMemory({ lives, idle, warm, after, peakAnonymousBytes, liveHeapBytes }: MemoryResult): string {
  const row = (name: string, of: MemoryResult['idle'], heapBytes?: number) => [
    name,
    mebibytes(of.anonymousBytes).toFixed(1),
    mebibytes(of.residentBytes).toFixed(1),
    heapBytes === undefined ? '' : mebibytes(heapBytes).toFixed(1),
    `${of.descriptors}`,
    `${of.threads}`,
  ];
  return table(
    ['memory (MiB)', 'anonymous', 'resident', 'live heap', 'descriptors', 'threads'],
    [
      row('idle', idle, liveHeapBytes.idle),
      [`peak, ${manyCallers} callers`, mebibytes(peakAnonymousBytes).toFixed(1), '', '', '', ''],
      row(`after ${Math.ceil(lives / 10)} lives`, warm),
      row(`after ${lives} lives`, after, liveHeapBytes.after),
    ],
  );
}

function describeSnapshots(result: BenchResult['snapshots']): string {
  if (typeof result === 'string') return `Snapshots: ${result}`;
  const { cuts, frozenMs, latencyMs, ratio } = result;
  return (
    `CreateSnapshot of a mounted volume (median of ${cuts}): 1 GiB with 0.5 GiB written ${ms(latencyMs.small)} ms, ` +
    `100 GiB with 5 GiB written ${ms(latencyMs.large)} ms (ratio ${ratio.toFixed(2)}); ` +
    `while fio writes to it, it is frozen for ${ms(frozenMs)} ms`
  );
}

function ms(value: number): string {
  return value.toFixed(2);
}
