/** Where fio reads and writes. Each lies on a disk of its own; all these disks are alike. */
export const sites = ['raw', 'linear', 'crypt', 'crypt over linear', 'lvm', 'disk', 'lvm with LUKS'] as const;
export type Site = (typeof sites)[number];

/** The sites that are volumes, each with what its user would have without the driver, and the same layers of the kernel by hand. */
export const comparisons = {
  lvm: { without: 'raw', byHand: 'linear' },
  disk: { without: 'raw', byHand: 'linear' },
  'lvm with LUKS': { without: 'crypt', byHand: 'crypt over linear' },
} as const satisfies Partial<Record<Site, { readonly without: Site; readonly byHand: Site }>>;
export type VolumeSite = keyof typeof comparisons;
export const volumeSites = Object.keys(comparisons) as readonly VolumeSite[];

/** How a disk answers, by what scsi_debug is told. */
export const disks = {
  /**
   * After 1 ms: so 16 reads at a time are 16,000 a second, fewer than the one processor could do, and the disk sets the pace, as
   * it does on a node with more and faster processors.
   */
  'takes its time': 'echo 1000000 >/sys/bus/pseudo/drivers/scsi_debug/ndelay',
  'answers at once': 'echo 0 >/sys/bus/pseudo/drivers/scsi_debug/delay',
} as const;
export type Disk = keyof typeof disks;
export const diskNames = Object.keys(disks) as readonly Disk[];
