import type { DiskIdForm } from '../../cloud-disk/context.ts';

export const ebsDiskIds: DiskIdForm = {
  kind: 'aws-ebs',
  pattern: /^vol-[0-9a-f]{8,17}$/,
  words: 'the id of an EBS volume, such as vol-0123456789abcdef0',
};

/** The serial number of the volume's NVMe device: its id without the dash. */
export function serialOf(volumeId: string): string {
  return volumeId.replace('-', '');
}
