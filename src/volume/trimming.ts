/** Interval at which free space of filesystems is returned to their pool. */
export const trimmings = ['off', 'daily', 'weekly'] as const;

export type Trimming = (typeof trimmings)[number];
