/**
 * How a volume lies on the disks of its pool. linear: one after the other, as they have room. striped: spread over several.
 * raid1: twice, on two of them.
 */
export const layouts = ['linear', 'striped', 'raid1'] as const;
export type Layout = (typeof layouts)[number];

/** Of a volume that does not say. */
export const defaultLayout: Layout = 'linear';
