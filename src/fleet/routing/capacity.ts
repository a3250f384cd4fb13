import type * as wire from '../../csi/generated/types.ts';
import type { Draft } from '../../csi/handler.ts';

/**
 * What several nodes can provision together: each volume lies on one of them, so the largest possible one is that of
 * the node with most room, the smallest that of the least demanding.
 */
export function sumCapacity(told: readonly wire.GetCapacityResponse[]): Draft<wire.GetCapacityResponse> {
  const able = told.filter(({ available_capacity }) => available_capacity > 0n);
  const [first] = able;
  if (first === undefined) return { available_capacity: 0n };
  if (able.length === 1) return first;
  const largest = able.reduce((most, { available_capacity: own, maximum_volume_size }) => {
    const size = maximum_volume_size?.value ?? own;
    return size > most ? size : most;
  }, 0n);
  const smallest = able.reduce((least, { minimum_volume_size }) => {
    const size = minimum_volume_size?.value ?? 0n;
    return size < least ? size : least;
  }, largest);
  return {
    available_capacity: able.reduce((sum, { available_capacity }) => sum + available_capacity, 0n),
    maximum_volume_size: { value: largest },
    minimum_volume_size: { value: smallest },
  };
}
