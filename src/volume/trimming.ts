/** How often free space of filesystems is given back to their pool. */
export const trimmings = ['off', 'daily', 'weekly'] as const;

export type Trimming = (typeof trimmings)[number];
