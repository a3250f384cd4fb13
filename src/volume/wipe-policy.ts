/**
 * What becomes of a deleted volume's data before its place is another's. discard: zeros, and the disk is told that the
 * blocks are free, where it promises that both go together; else as zero. zero: zeros are written. none: it stays.
 */
export const wipePolicies = ['discard', 'zero', 'none'] as const;
export type WipePolicy = (typeof wipePolicies)[number];
