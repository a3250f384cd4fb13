/**
 * The layout of a volume on the disks of its pool. linear: one disk after the other, as they have room. striped: spread
 * over several disks. raid1: two copies, on two disks.
 */
export const layouts = ['linear', 'striped', 'raid1'] as const;
export type Layout = (typeof layouts)[number];

/** The layout if the request names none. */
export const defaultLayout: Layout = 'linear';
