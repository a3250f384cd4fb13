import { createdTypes } from './creations.ts';
import { judgeDevices } from './devices/goals.ts';
import type { Goal } from './goal.ts';
import { type BenchResult, mebibytes, notAskedFor } from './result.ts';
import { scaledSteps } from './scale/scale.ts';

/** What the driver is meant to reach, held against what was measured. */
export function judge(result: BenchResult): Goal[] {
  const { creations, lifecycles, startup, memory } = result;
  return [
    ...lifecycles.flatMap(({ pool, ratio, latencyMs }) => [
      atLeast(`${pool} pool: lives a second, 1 caller, of the floor's`, ratio.one, 1),
      atLeast(`${pool} pool: lives a second, 16 callers, of the floor's single caller`, ratio.many, 1.8),
      below(`${pool} pool: NodePublishVolume p50, 1 caller`, latencyMs.NodePublishVolume.one.p50, 1.5, 'ms'),
      below(`${pool} pool: NodeUnpublishVolume p50, 1 caller`, latencyMs.NodeUnpublishVolume.one.p50, 1.5, 'ms'),
    ]),
    ...createdTypes.map((fsType) =>
      below(`CreateVolume p50 of ${fsType}, 1 caller, where files share blocks`, creations[fsType].p50Ms, 3, 'ms'),
    ),
    below('first Probe after the start', startup.firstProbeMs, 300, 'ms'),
    below('anonymous memory at its peak, 16 callers', mebibytes(memory.peakAnonymousBytes), 64, 'MiB'),
    below('anonymous memory, idle', mebibytes(memory.idle.anonymousBytes), 32, 'MiB'),
    below(`anonymous memory after ${memory.lives} lives`, mebibytes(memory.after.anonymousBytes), 64, 'MiB'),
    ...snapshotGoals(result.snapshots),
    ...scaleGoals(result.scale),
    ...(typeof result.devices === 'string' ? [] : judgeDevices(result.devices)),
    {
      name: `file descriptors flat over ${memory.lives} lives`,
      measured: `${memory.warm.descriptors} to ${memory.after.descriptors}`,
      met: memory.after.descriptors <= memory.warm.descriptors,
    },
  ];
}

/** What `--check` fails for: also a goal that nothing could be said of. */
export function missedGoals(
  { devices, snapshots }: Pick<BenchResult, 'devices' | 'snapshots'>,
  goals: readonly Goal[],
): string[] {
  const missed = goals.filter(({ met }) => !met).map(({ measured, name }) => `${name}: ${measured}`);
  if (typeof snapshots === 'string') missed.push(`snapshots were not measured: ${snapshots}`);
  if (typeof devices === 'string' && devices !== notAskedFor) {
    missed.push(`block volumes were not measured: ${devices}`);
  }
  return missed;
}

function scaleGoals(scale: BenchResult['scale']): Goal[] {
  if (typeof scale === 'string') return [];
  const { medianMs, volumes } = scale;
  return scaledSteps.map((step) => {
    const { few, many } = medianMs[step];
    const limitMs = step === 'ListVolumes' ? 100 : step === 'first CreateVolume' ? 3000 : undefined;
    return limitMs === undefined
      ? below(`${step} with ${volumes.many} volumes, of that with ${volumes.few}`, many / few, 1.2, 'times')
      : below(`${step} with ${volumes.many} volumes`, many, limitMs, 'ms');
  });
}

function snapshotGoals(snapshots: BenchResult['snapshots']): Goal[] {
  if (typeof snapshots === 'string') return [];
  return [
    below('snapshot of 100 GiB sparse, of one of 1 GiB', snapshots.ratio, 1.5, 'times'),
    below('a writer waits for a snapshot', snapshots.frozenMs, 50, 'ms'),
  ];
}

function atLeast(name: string, measured: number, goal: number): Goal {
  return { name: `${name} (at least ${goal})`, measured: measured.toFixed(2), met: measured >= goal };
}

function below(name: string, measured: number, goal: number, unit: string): Goal {
  return { name: `${name} (below ${goal} ${unit})`, measured: `${measured.toFixed(2)} ${unit}`, met: measured < goal };
}
