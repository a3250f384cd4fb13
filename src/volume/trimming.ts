/** How often the free space of filesystems goes back to their pool. */
export const trimmings = ['off', 'daily', 'weekly'] as const;

export type Trimming = (typeof trimmings)[number];
