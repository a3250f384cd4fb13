import type * as wire from '../../csi/generated/types.ts';
import type { Draft } from '../../csi/handler.ts';

/**
 * The common capacity of several nodes: each volume lies on one of them, so the largest possible volume is that of the
 * node with the most room, the smallest that of the least demanding node.
 */
export function sumCapacity(told: readonly wire.GetCapacityResponse[]): Draft<wire.GetCapacityResponse> {
  const able = told.filter(({ available_capacity }) => available_capacity > 0n);
  const [first] = able;
  if (first === undefined) return { available_capacity: 0n };
  if (able.length === 1) return first;
  const largest = able.reduce((max, { available_capacity: own, maximum_volume_size }) => {
    const size = maximum_volume_size?.value ?? own;
    return size > max ? size : max;
  }, 0n);
  const smallest = able.reduce((min, { minimum_volume_size }) => {
    const size = minimum_volume_size?.value ?? 0n;
    return size < min ? size : min;
  }, largest);
  return {
    available_capacity: able.reduce((sum, { available_capacity }) => sum + available_capacity, 0n),
    maximum_volume_size: { value: largest },
    minimum_volume_size: { value: smallest },
  };
}
