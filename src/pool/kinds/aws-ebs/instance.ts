import { zoneKey } from '../../../volume/topology.ts';
import type { Instance } from '../../cloud-disk/instance.ts';
import type { Environment } from './ec2/credentials.ts';
import { InstanceMetadata } from './ec2/metadata.ts';

/**
 * A machine with Nitro has 28 places for network cards, disks and the root volume together. Newer types have more for disks:
 * maxVolumesPerNode says so for them.
 */
const sharedPlaces = 28;

/** Asks the metadata service for this machine. @throws NoAnswer, Unavailable */
export async function readInstance(environment: Environment): Promise<Instance> {
  const metadata = new InstanceMetadata(environment['AWS_EC2_METADATA_SERVICE_ENDPOINT']);
  const [id, zone, cards, disks] = await Promise.all([
    metadata.require('meta-data/instance-id'),
    metadata.require('meta-data/placement/availability-zone'),
    metadata.get('meta-data/network/interfaces/macs/'),
    metadata.get('meta-data/block-device-mapping/'),
  ]);
  return { id, zone, zoneKeys: [zoneKey], maxVolumes: placesFor(linesOf(cards), linesOf(disks)) };
}

/** @param disks such as ami, root, ebs2, ephemeral0: the first two are the root volume */
export function placesFor(cards: readonly string[], disks: readonly string[]): number {
  const others = disks.filter((name) => name !== 'ami' && name !== 'root' && name !== 'swap');
  return Math.max(1, sharedPlaces - Math.max(1, cards.length) - 1 - others.length);
}

function linesOf(text: string | undefined): string[] {
  return (text ?? '').split('\n').filter((line) => line.trim() !== '');
}
