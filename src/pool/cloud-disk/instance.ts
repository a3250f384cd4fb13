/** A machine of a cloud, as its metadata service tells of it. */
export interface Instance {
  /** The name by which the cloud attaches disks to it. */
  readonly id: string;
  readonly zone: string;
  /** The topology keys for its zone: Kubernetes' own, and those of the vendor's driver. */
  readonly zoneKeys: readonly string[];
  /** The disks that it can have beside those that it was started with. */
  readonly maxVolumes: number;
}

/** The clouds whose machines say what they are. */
export const clouds = ['aws', 'gce'] as const;
export type CloudName = (typeof clouds)[number];
