/**
 * Treatment of a deleted volume's data before another volume gets its space. discard: zeros, and the blocks are
 * discarded, on disks that guarantee both together; otherwise the same as zero. zero: zeros are written. none: the data
 * stays.
 */
export const wipePolicies = ['discard', 'zero', 'none'] as const;
export type WipePolicy = (typeof wipePolicies)[number];
